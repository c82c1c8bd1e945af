"""Errors, grouped by the reaction of a caller.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message states what
failed, on what, and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sparklake._html import html_table
from sparklake.visible import visible_line, visible_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


# --- the call itself is wrong: correct it ---------------------------------------------------------


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


class InvalidRecordError(InvalidInputError):
    """Rows of objects that cannot be staged: a duplicate, a bad size, too much data."""

    kind = "invalid_record"


class UnfitError(InvalidInputError):
    """A destination that cannot hold some objects under their names.

    `objects` has the first ones, each with the reason. `count` is the number of all.
    """

    kind = "unfit"

    def __init__(
        self, message: str, objects: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> None:
        super().__init__(message)
        self.objects = list(objects)
        self.count = count

    def __reduce__(self) -> tuple[type[UnfitError], tuple[str, list[tuple[str, str]], int]]:
        return type(self), (str(self), self.objects, self.count)


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

    def __reduce__(self) -> tuple[type[ImportErrorsError], tuple[object, ...]]:
        return type(self), (str(self), self.counts, self.errors, self.errors_to)


class InvalidHooksError(InvalidInputError):
    """A mistake in a hook file, with its place."""

    kind = "invalid_hooks"


# --- something named is not there, or is there already --------------------------------------------


class NotFoundError(SparklakeError, LookupError):
    """A named thing that does not exist."""

    kind = "not_found"


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


class NamespaceInUseError(AlreadyExistsError):
    """A storage namespace that belongs, or belonged, to a repository."""

    kind = "namespace_in_use"


class ProtectedError(SparklakeError, PermissionError):
    """A change that a rule forbids on a branch, or the end of the default branch."""

    kind = "protected"


class ReadOnlyError(SparklakeError, PermissionError):
    """A change to a read-only repository."""

    kind = "read_only"


class ImmutableRefError(SparklakeError, PermissionError):
    """A write to a tag or a commit, which never changes."""

    kind = "immutable_ref"


# --- hooks ----------------------------------------------------------------------------------------


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

    def __reduce__(self) -> tuple[type[HookFailedError], tuple[str, str]]:
        return type(self), (str(self), self.run_id)


class HookNotAllowedError(HookFailedError):
    """A hook that guards an operation and may not run here."""

    kind = "hook_not_allowed"


# --- the state of the branch ----------------------------------------------------------------------


class NothingToDoError(SparklakeError):
    """A no-op: the verb would change nothing."""

    kind = "nothing_to_do"
    exit_code = 4


class NoChangesError(NothingToDoError):
    """A commit or merge without changes."""

    kind = "no_changes"


class DirtyBranchError(SparklakeError):
    """A branch with uncommitted changes, which the verb would hide."""

    kind = "dirty_branch"
    exit_code = 4


class ExpiredError(SparklakeError, LookupError):
    """A commit that has expired. Its objects are not kept and cannot be used.

    `commit_id` is its id. Its log and listings stay.
    """

    kind = "expired"
    exit_code = 8

    def __init__(self, message: str, commit_id: str = "") -> None:
        super().__init__(message)
        self.commit_id = commit_id

    def __reduce__(self) -> tuple[type[ExpiredError], tuple[str, str]]:
        return type(self), (str(self), self.commit_id)


class PurgeBlockedError(SparklakeError):
    """A purge of objects that are still in use, on a branch or under other paths."""

    kind = "purge_blocked"
    exit_code = 4


class AddressTakenError(SparklakeError):
    """Objects that cannot be written with their addresses. Nothing was published.

    A range of the same objects exists, with `address` for the object at `path`.
    """

    kind = "address_taken"
    exit_code = 4

    def __init__(self, message: str, path: str = "", address: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.address = address

    def __reduce__(self) -> tuple[type[AddressTakenError], tuple[str, str, str]]:
        return type(self), (str(self), self.path, self.address)


class RaceLostError(SparklakeError):
    """A lost race: the branch kept moving, or another writer took the changes first."""

    kind = "race_lost"
    exit_code = 5


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


class CollectionOpenError(RaceLostError):
    """A garbage collection in progress, whose end must be awaited."""

    kind = "collection_open"


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
        """Return an HTML table of the first conflicts, with the checksums of each side."""
        sides = {"base": "base_checksum", "source": "right_checksum", "dest": "left_checksum"}
        columns = {"path": "path", **sides, "reason": "reason"}
        rows = (
            {name: getattr(each, field, None) for name, field in columns.items()}
            for each in self.conflicts
        )
        return html_table(str(self), list(columns), rows)

    def __reduce__(self) -> tuple[type[MergeConflictError], tuple[str, list[object], int]]:
        return type(self), (str(self), self.conflicts, self.count)


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

    def __init__(self, message: str, branch: str = "") -> None:
        super().__init__(message)
        self.branch = branch

    def __reduce__(self) -> tuple[type[TransactionError], tuple[str, str]]:
        return type(self), (str(self), self.branch)


# --- the world below ------------------------------------------------------------------------------


class StoreError(SparklakeError, OSError):
    """A failure of the object store."""

    kind = "store"


class StoreUnreachableError(StoreError):
    """A bucket or directory that is unreachable or does not exist."""

    kind = "store_unreachable"


class StorePermissionError(StoreError, PermissionError):
    """An object store that refuses the credentials."""

    kind = "store_permission"


class ReadOnlyNamespaceError(StorePermissionError):
    """A namespace without write permission for a verb that must write. Nothing was done."""

    kind = "read_only_namespace"


class MissingFileError(StoreError):
    """A file of the lake that is missing from the object store.

    It is not a FileNotFoundError, which callers often treat as an answer instead of a loss.
    """

    kind = "missing_file"


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

    def __reduce__(self) -> tuple[type[PurgedError], tuple[str, str, str, int]]:
        return type(self), (str(self), self.purge_id, self.who, self.date)


class CorruptFileError(StoreError):
    """A file of the lake whose contents do not match its name."""

    kind = "corrupt_file"


class InvalidDumpError(SparklakeError, ValueError):
    """A dump of refs that is inconsistent, or that a repository cannot hold."""

    kind = "invalid_dump"


class LostResultError(SparklakeError, RuntimeError):
    """A task result that the engine lost."""

    kind = "lost_result"


class LostWorkerError(LostResultError):
    """A worker process that died, for example for lack of memory."""

    kind = "lost_worker"


class RefStoreUnavailableError(SparklakeError, ConnectionError):
    """A Postgres of the refs that cannot be used."""

    kind = "ref_store_unavailable"
    has_lines = True


class MissingDependencyError(SparklakeError, ImportError):
    """An optional package that is not installed, with the extra that installs it."""

    kind = "missing_dependency"


# --- the user ------------------------------------------------------------------------------------


class InterruptError(SparklakeError):
    """An interruption by the user, like SIGINT in a shell."""

    kind = "interrupted"
    exit_code = 130

    def __init__(
        self,
        message: str = "interrupted; unfinished work has changed no branch. Run the command again",
    ) -> None:
        super().__init__(message)
