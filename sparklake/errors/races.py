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


class ChangesTakenError(RaceLostError):
    """Staged changes that another writer has committed, so nothing is left to do."""

    kind = "changes_taken"


class WriteEndedError(RaceLostError):
    """A table write that was abandoned or has already landed. It stages nothing."""

    kind = "write_ended"

    @classmethod
    def of(cls, write_id: str, branch: str) -> WriteEndedError:
        """Return the error of a write that is not open on a branch."""
        return cls(
            f"the write {write_id} to {branch!r} is no longer open: it was abandoned, or its "
            "files are already staged. Nothing was staged now. Check the branch, and write "
            "again if necessary"
        )


class TableMovedError(RaceLostError):
    """A Delta table to which others have committed since a write began."""

    kind = "table_moved"


class UnexpectedHeadError(RaceLostError):
    """A branch whose head is not the one that the caller expects."""

    kind = "unexpected_head"


class CollectionBegunError(RaceLostError):
    """A garbage collection that began after the verb did. Run the verb again."""

    kind = "collection_begun"


class OnceKeyBusyError(RaceLostError):
    """A once key that another run holds, or has just recorded."""

    kind = "once_key_busy"

    @classmethod
    def of(cls, key: str) -> OnceKeyBusyError:
        """Return the error of a key that another run uses."""
        return cls(
            f"another run uses the once key {key!r}. This run has changed nothing: run it again "
            "later with the same key to get the result"
        )


class CollectionOpenError(RaceLostError):
    """A garbage collection in progress, whose end must be awaited."""

    kind = "collection_open"


class PurgeOpenError(RaceLostError):
    """A purge in progress, whose end must be awaited."""

    kind = "purge_open"
