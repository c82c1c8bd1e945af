"""Errors, grouped by the reaction of a caller.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message states what
failed, on what, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from sparklake._html import html_table
from sparklake.visible import visible_line, visible_text


class SparklakeError(Exception):
    """The base class of sparklake's errors.

    Its text is one line without control characters, even if names contain some. With
    `has_lines` it quotes the output of another program, and keeps line ends and tabs.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    has_lines: ClassVar[bool] = False

    def __str__(self) -> str:
        text = super().__str__()
        return visible_text(text) if self.has_lines else visible_line(text)


class MissingDependencyError(SparklakeError, ImportError):
    """An optional package that is not installed, with the extra that installs it."""

    kind = "missing_dependency"
    exit_code = 15


class InterruptError(SparklakeError):
    """An interruption by the user, like SIGINT in a shell."""

    kind = "interrupted"
    exit_code = 130

    def __init__(
        self,
        message: str = "interrupted; unfinished work has changed no branch. Run the command again",
    ) -> None:
        super().__init__(message)


# --- invalid arguments: correct the call ----------------------------------------------------------


class InvalidInputError(SparklakeError, ValueError):
    """An invalid argument. Nothing was read or written."""

    kind = "invalid_input"
    exit_code = 2


class InvalidUriError(InvalidInputError):
    """A URI that is malformed or refers to the wrong kind of thing."""

    kind = "invalid_uri"


class InvalidNameError(InvalidInputError):
    """An invalid name of a repository, branch or tag."""

    kind = "invalid_name"


class InvalidRefError(InvalidInputError):
    """A malformed ref expression."""

    kind = "invalid_ref"


class InvalidKeyError(InvalidInputError):
    """An object key that is empty, too long, not UTF-8 or outside of the root."""

    kind = "invalid_key"


class InvalidRowsError(InvalidInputError):
    """Rows of objects that cannot be staged: a duplicate, a bad size, too much data."""

    kind = "invalid_rows"


class IdempotencyKeyReusedError(InvalidInputError):
    """A once key that was used with another verb or other arguments."""

    kind = "idempotency_key_reused"


class UnsupportedNamesError(InvalidInputError):
    """Objects with names that the destination of an export cannot store.

    `objects` has the first ones, each with the reason. `count` is the number of all.
    """

    kind = "unsupported_names"

    def __init__(
        self, message: str, objects: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> None:
        super().__init__(message)
        self.objects = list(objects)
        self.count = count


class ImportErrorsError(InvalidInputError):
    """Rows of a source that cannot be imported. No branch has moved.

    `counts` is by reason. `errors` is an Arrow table of the first rows. `errors_to` has Parquet
    files of all rows, if it was requested.
    """

    kind = "import_errors"

    def __init__(
        self,
        message: str,
        counts: Mapping[str, int] | None = None,
        errors: object = None,
        errors_to: str | None = None,
    ) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})
        self.errors = errors
        self.errors_to = errors_to


class InvalidHooksError(InvalidInputError):
    """A mistake in a hook file, with its place."""

    kind = "invalid_hooks"


class InvalidDumpError(SparklakeError, ValueError):
    """A dump of refs that is inconsistent, or that a repository cannot store."""

    kind = "invalid_dump"
    exit_code = 10


# --- names that do not exist, exist already, or are protected -------------------------------------


class NotFoundError(SparklakeError, LookupError):
    """A named thing that does not exist."""

    kind = "not_found"
    exit_code = 13


class RepositoryNotFoundError(NotFoundError, FileNotFoundError):
    """A repository that the lake does not have."""

    kind = "repository_not_found"


class RefNotFoundError(NotFoundError, FileNotFoundError):
    """A ref that matches no branch, tag or commit."""

    kind = "ref_not_found"


class AmbiguousRefError(RefNotFoundError):
    """A commit id prefix that matches more than one commit."""

    kind = "ambiguous_ref"


class ObjectNotFoundError(NotFoundError, FileNotFoundError):
    """An object that a ref does not have."""

    kind = "object_not_found"


class AlreadyExistsError(SparklakeError, FileExistsError):
    """A name that is already used."""

    kind = "already_exists"
    exit_code = 14


class NamespaceInUseError(AlreadyExistsError):
    """A storage namespace that belongs, or belonged, to a repository."""

    kind = "namespace_in_use"


class ProtectedError(SparklakeError, PermissionError):
    """A change that a rule forbids on a branch, or the end of the default branch."""

    kind = "protected"
    exit_code = 11


class ReadOnlyError(SparklakeError, PermissionError):
    """A change to a read-only repository."""

    kind = "read_only"
    exit_code = 11


class ImmutableRefError(SparklakeError, PermissionError):
    """A write to a tag or a commit, which never changes."""

    kind = "immutable_ref"
    exit_code = 11


# --- lost races: read again, then retry -----------------------------------------------------------


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


# --- verbs that cannot change a branch in its present state ---------------------------------------


class HookFailedError(SparklakeError):
    """A hook's refusal of an operation. No ref has moved.

    `run_id` is the id of the run, for `sparklake hooks show`.
    """

    kind = "hook_failed"
    has_lines = True
    exit_code = 6

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class HookNotAllowedError(HookFailedError):
    """A hook that guards an operation and may not run here."""

    kind = "hook_not_allowed"


class NothingToDoError(SparklakeError):
    """A no-op: the verb would change nothing."""

    kind = "nothing_to_do"
    exit_code = 4


class NoChangesError(NothingToDoError):
    """A commit or merge without changes."""

    kind = "no_changes"


class DirtyBranchError(SparklakeError):
    """A branch with uncommitted changes, which the verb would hide or lose."""

    kind = "dirty_branch"
    exit_code = 4

    @classmethod
    def of_deletion(cls, branch: str, staged: str = "staged changes") -> DirtyBranchError:
        """Return the error of a deletion that would lose staged changes."""
        return cls(
            f"{branch!r} has {staged}, which cannot be restored after a deletion: commit them, or "
            "delete them, too, with --discard-staged (in Python discard_staged=True)"
        )


class ExpiredError(SparklakeError, LookupError):
    """A commit that has expired. Its objects are not kept and cannot be used.

    `commit_id` is its id. Its log and listings stay.
    """

    kind = "expired"
    exit_code = 8

    def __init__(self, message: str, commit_id: str = "") -> None:
        super().__init__(message)
        self.commit_id = commit_id


class PurgeBlockedError(SparklakeError):
    """A purge of objects that are still in use, on a branch or under other paths."""

    kind = "purge_blocked"
    exit_code = 4


class AddressConflictError(SparklakeError):
    """Objects that cannot be written with their addresses. Nothing was published.

    A range of the same objects exists, with `address` for the object at `path`.
    """

    kind = "address_conflict"
    exit_code = 4

    def __init__(self, message: str, path: str = "", address: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.address = address


class NewerDumpError(SparklakeError):
    """A newer dump of refs, or newer trees, of another program. Nothing was dumped or restored."""

    kind = "newer_dump"
    exit_code = 4


_SHOWN_FIELDS = {
    "path": "path",
    "base": "base_text",
    "source": "source_text",
    "dest": "dest_text",
    "reason": "reason",
}
"""The attribute of a conflict for each column of a table."""


class MergeConflictError(SparklakeError):
    """The keys that both sides of a merge changed. Nothing was published.

    `conflicts` has the first ones in key order. `count` is the number of all.
    """

    kind = "merge_conflict"
    exit_code = 3

    def __init__(self, message: str, conflicts: Sequence[object] = (), count: int = 0) -> None:
        super().__init__(message)
        self.conflicts = list(conflicts)
        self.count = count

    def _repr_html_(self) -> str:
        rows = (
            {name: getattr(each, field, None) for name, field in _SHOWN_FIELDS.items()}
            for each in self.conflicts
        )
        return html_table(str(self), list(_SHOWN_FIELDS), rows)


class StrategyError(SparklakeError):
    """A merge strategy that failed or made an invalid decision. Nothing was published."""

    kind = "strategy"
    has_lines = True
    exit_code = 7


class TransactionError(SparklakeError):
    """A transaction whose work could not be merged. `branch` keeps the work.

    The cause has the reason.
    """

    kind = "transaction"
    exit_code = 3

    def __init__(self, message: str, branch: str = "") -> None:
        super().__init__(message)
        self.branch = branch


# --- the systems below: object store, engines, Postgres -------------------------------------------


class StoreError(SparklakeError, OSError):
    """A failure of the object store."""

    kind = "store"
    exit_code = 12


class StoreUnreachableError(StoreError):
    """A bucket or directory that is unreachable or does not exist.

    `is_missing` is set if it is known not to exist.
    """

    kind = "store_unreachable"
    is_missing = False

    @classmethod
    def of_missing(cls, message: str) -> StoreUnreachableError:
        """Return the error of a bucket or directory that does not exist."""
        error = cls(message)
        error.is_missing = True
        return error


class StorePermissionError(StoreError, PermissionError):
    """An object store that refuses the credentials."""

    kind = "store_permission"
    exit_code = 11


class ReadOnlyNamespaceError(StorePermissionError):
    """A namespace without write permission for a verb that must write. Nothing was done."""

    kind = "read_only_namespace"


class MissingFileError(StoreError):
    """A file of the lake that is missing from the object store.

    It is not a FileNotFoundError, which callers often treat as an answer instead of a loss.
    """

    kind = "missing_file"
    exit_code = 10


class PurgedError(MissingFileError):
    """An object whose bytes were purged from all history.

    `purge_id`, `who` and `date` identify the purge. `date` is in unix seconds.
    """

    kind = "purged"

    def __init__(self, message: str, purge_id: str = "", who: str = "", date: int = 0) -> None:
        super().__init__(message)
        self.purge_id = purge_id
        self.who = who
        self.date = date


class CorruptFileError(StoreError):
    """A file of the lake whose contents do not match its name."""

    kind = "corrupt_file"
    exit_code = 10


class LostResultError(SparklakeError, RuntimeError):
    """A task result that the engine lost."""

    kind = "lost_result"
    exit_code = 12


class RefStoreUnavailableError(SparklakeError, ConnectionError):
    """A Postgres of the refs that cannot be used."""

    kind = "ref_store_unavailable"
    exit_code = 12
    has_lines = True


class LockHeldError(RefStoreUnavailableError):
    """A lock in Postgres that another session does not release. Nothing was changed."""

    kind = "lock_held"


class RefsLostError(SparklakeError):
    """A ref store that has lost commits or refs. Nothing was done."""

    kind = "refs_lost"
    exit_code = 10
