"""Errors of lost races: read again, then retry."""

from __future__ import annotations

from sparklake.errors.root import SparklakeError


class RaceLostError(SparklakeError):
    """A lost race: the branch kept moving, or another writer took the changes first."""

    kind = "race_lost"
    exit_code = 5

    @classmethod
    def of_new_run(cls, branch: str) -> RaceLostError:
        """Return the error of a move below a write that it has not seen."""
        return cls(f"another writer has just staged a write to {branch!r}: try again")


class AlreadyCommittedError(RaceLostError):
    """Staged changes that another writer has committed, so nothing is left to do."""

    kind = "already_committed"


class WriteFinishedError(RaceLostError):
    """A table write that was abandoned or has already landed. It stages nothing."""

    kind = "write_finished"

    @classmethod
    def of(cls, write_id: str, branch: str) -> WriteFinishedError:
        """Return the error of a write that is not open on a branch."""
        return cls(
            f"the write {write_id} to {branch!r} is no longer open: it was abandoned, or its "
            "files are already staged. Nothing was staged now. Check the branch, and write "
            "again if necessary"
        )


class TableChangedError(RaceLostError):
    """A Delta table to which others have committed since a write began."""

    kind = "table_changed"


class UnexpectedHeadError(RaceLostError):
    """A branch whose head is not the one that the caller expects."""

    kind = "unexpected_head"


class CollectionStartedError(RaceLostError):
    """A garbage collection that began after the verb did. Run the verb again."""

    kind = "collection_started"


class IdempotencyKeyInUseError(RaceLostError):
    """A once key that another run holds, or has just recorded."""

    kind = "idempotency_key_in_use"

    @classmethod
    def of(cls, key: str) -> IdempotencyKeyInUseError:
        """Return the error of a key that another run uses."""
        return cls(
            f"another run uses the once key {key!r}. This run has changed nothing: run it again "
            "later with the same key to get the result"
        )


class CollectionRunningError(RaceLostError):
    """A garbage collection in progress, whose end must be awaited."""

    kind = "collection_running"


class PurgeRunningError(RaceLostError):
    """A purge in progress, whose end must be awaited."""

    kind = "purge_running"
