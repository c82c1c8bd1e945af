"""Errors, grouped by what a caller would do about them.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message says what
happened, to what, and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sparklake._html import html_table
from sparklake.visible import visible_line, visible_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SparklakeError(Exception):
    """The root of every error that sparklake raises on purpose.

    Its text is one line without control characters, whatever names are in it. Where `has_lines`,
    it quotes the output of another program, and keeps its line ends and tabs.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    has_lines: ClassVar[bool] = False

    def __str__(self) -> str:
        text = super().__str__()
        return visible_text(text) if self.has_lines else visible_line(text)


# --- the call itself is wrong: correct it ---------------------------------------------------------


class InvalidInputError(SparklakeError, ValueError):
    """Says that an argument cannot be used; nothing was read or written."""

    kind = "invalid_input"
    exit_code = 2


class InvalidUriError(InvalidInputError):
    """Says that a URI is malformed or names the wrong kind of thing."""

    kind = "invalid_uri"


class InvalidNameError(InvalidInputError):
    """Says that a repository, branch or tag may not have this name."""

    kind = "invalid_name"


class InvalidRefError(InvalidInputError):
    """Says that a ref expression is malformed."""

    kind = "invalid_ref"


class InvalidKeyError(InvalidInputError):
    """Says that an object key is empty, too long, not UTF-8, or would escape the store's root."""

    kind = "invalid_key"


class InvalidRecordError(InvalidInputError):
    """Says that rows of objects cannot be staged: a duplicate, a bad size, too much data."""

    kind = "invalid_record"


class UnfitError(InvalidInputError):
    """Says that a destination cannot hold some objects under their names.

    `objects` holds the first ones, each with the reason, `count` says how many there are in all.
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
    """Carries what cannot be imported of a source; nothing has moved.

    `counts` are by reason, `errors` is an Arrow table of the first rows, and all of them are in
    Parquet files under `errors_to`, where that was asked for.
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
    """Says what is wrong in a file of hooks, and where."""

    kind = "invalid_hooks"


# --- something named is not there, or is there already --------------------------------------------


class NotFoundError(SparklakeError, LookupError):
    """Says that something named does not exist."""

    kind = "not_found"


class RepositoryNotFoundError(NotFoundError, FileNotFoundError):
    """Says that the lake has no such repository."""

    kind = "repository_not_found"


class RefNotFoundError(NotFoundError, FileNotFoundError):
    """Says that no branch, tag or commit answers to a ref."""

    kind = "ref_not_found"


class AmbiguousRefError(RefNotFoundError):
    """Says that a commit id prefix fits more than one commit."""

    kind = "ambiguous_ref"


class ObjectNotFoundError(NotFoundError, FileNotFoundError):
    """Says that a ref holds no object of that key."""

    kind = "object_not_found"


class AlreadyExistsError(SparklakeError, FileExistsError):
    """Says that the name is taken."""

    kind = "already_exists"


class NamespaceInUseError(AlreadyExistsError):
    """Says that a storage namespace belongs, or belonged, to a repository."""

    kind = "namespace_in_use"


class ProtectedError(SparklakeError, PermissionError):
    """Says that the thing may not be changed: a protected branch, or the default one's being."""

    kind = "protected"


class ReadOnlyError(SparklakeError, PermissionError):
    """Says that the repository takes no changes at all."""

    kind = "read_only"


class ImmutableRefError(SparklakeError, PermissionError):
    """Says that something was to be written to a tag or a commit, which never changes."""

    kind = "immutable_ref"


# --- hooks ----------------------------------------------------------------------------------------


class HookFailedError(SparklakeError):
    """Says that a hook has refused what was about to happen; nothing has moved.

    `run_id` names the run, which `sparklake hooks show` tells all of.
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
    """Says that a hook guards what was about to happen, and may not be run here."""

    kind = "hook_not_allowed"


# --- the state of the branch ----------------------------------------------------------------------


class NothingToDoError(SparklakeError):
    """Says that the verb would change nothing."""

    kind = "nothing_to_do"
    exit_code = 4


class NoChangesError(NothingToDoError):
    """Says that there is nothing to commit or to merge."""

    kind = "no_changes"


class DirtyBranchError(SparklakeError):
    """Says that the branch has uncommitted changes, which the verb would bury."""

    kind = "dirty_branch"
    exit_code = 4


class ExpiredError(SparklakeError, LookupError):
    """Says that a commit has expired: its objects are not kept, and nothing is made of it.

    `commit_id` names it, and its log and listings stay.
    """

    kind = "expired"
    exit_code = 8

    def __init__(self, message: str, commit_id: str = "") -> None:
        super().__init__(message)
        self.commit_id = commit_id

    def __reduce__(self) -> tuple[type[ExpiredError], tuple[str, str]]:
        return type(self), (str(self), self.commit_id)


class PurgeBlockedError(SparklakeError):
    """Says that what is to be purged is still in use: on a branch, or under other paths."""

    kind = "purge_blocked"
    exit_code = 4


class AddressTakenError(SparklakeError):
    """Reports that objects cannot be written with their addresses; nothing was published.

    A range of the same objects exists, and names `address` for the object at `path`.
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
    """Says that the branch kept moving, or that another writer took the changes first."""

    kind = "race_lost"
    exit_code = 5


class ChangesTakenError(RaceLostError):
    """Says that another writer has committed what was staged, so that nothing is left to do."""

    kind = "changes_taken"


class WriteEndedError(RaceLostError):
    """Says that a write of a table was abandoned, or has landed already, and stages nothing."""

    kind = "write_ended"

    @classmethod
    def of(cls, write_id: str, branch: str) -> WriteEndedError:
        """Return the error of a write that is not open on a branch."""
        return cls(
            f"the write {write_id} to {branch!r} is not open any more: somebody has abandoned it, "
            "or it has landed already. It has staged nothing now; look at the branch, and write "
            "again if need be"
        )


class TableMovedError(RaceLostError):
    """Says that others have committed to a Delta table which a write has changed as it was."""

    kind = "table_moved"


class UnexpectedHeadError(RaceLostError):
    """Says that a branch is not where the caller believes it to be."""

    kind = "unexpected_head"


class CollectionBegunError(RaceLostError):
    """Says that a garbage collection has begun since the verb did, which has to begin anew."""

    kind = "collection_begun"


class CollectionOpenError(RaceLostError):
    """Says that something has to wait for the end of a garbage collection."""

    kind = "collection_open"


class MergeConflictError(SparklakeError):
    """Carries the keys that both sides changed; nothing was published.

    `conflicts` holds the first ones in key order, `count` says how many there are in all.
    """

    kind = "merge_conflict"
    exit_code = 3

    def __init__(self, message: str, conflicts: Sequence[object] = (), count: int = 0) -> None:
        super().__init__(message)
        self.conflicts = list(conflicts)
        self.count = count

    def _repr_html_(self) -> str:
        """Show the first conflicts in a notebook, each with the checksums of its sides."""
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
    """Says that a merge strategy failed, or decided what cannot be; nothing was published."""

    kind = "strategy"
    has_lines = True
    exit_code = 7


class TransactionError(SparklakeError):
    """Says that a transaction's work could not be merged, and on which `branch` it is kept.

    Its cause says why.
    """

    kind = "transaction"

    def __init__(self, message: str, branch: str = "") -> None:
        super().__init__(message)
        self.branch = branch

    def __reduce__(self) -> tuple[type[TransactionError], tuple[str, str]]:
        return type(self), (str(self), self.branch)


# --- the world below ------------------------------------------------------------------------------


class StoreError(SparklakeError, OSError):
    """Says that the object store failed."""

    kind = "store"


class StoreUnreachableError(StoreError):
    """Says that the bucket or directory cannot be reached, or does not exist."""

    kind = "store_unreachable"


class StorePermissionError(StoreError, PermissionError):
    """Says that the object store refuses the credentials in use."""

    kind = "store_permission"


class ReadOnlyNamespaceError(StorePermissionError):
    """Says that a verb which must write to the namespace may not; it has done nothing."""

    kind = "read_only_namespace"


class MissingFileError(StoreError):
    """Says that a file which the lake refers to is gone from the object store.

    It is no FileNotFoundError, which many take for an answer rather than for a loss.
    """

    kind = "missing_file"


class PurgedError(MissingFileError):
    """Says that the bytes of an object were purged from all history: when, by whom, by which purge.

    `date` is in unix seconds.
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
    """Says that a file of the lake does not hold what its name promises."""

    kind = "corrupt_file"


class InvalidDumpError(SparklakeError, ValueError):
    """Says that a dump of refs contradicts itself, or holds what a repository cannot."""

    kind = "invalid_dump"


class LostResultError(SparklakeError, RuntimeError):
    """Says that an engine lost what a task had to say."""

    kind = "lost_result"


class LostWorkerError(LostResultError):
    """Says that a worker process died, as it does when the machine runs out of memory."""

    kind = "lost_worker"


class RefStoreUnavailableError(SparklakeError, ConnectionError):
    """Says that the Postgres of the refs cannot be used."""

    kind = "ref_store_unavailable"
    has_lines = True


class MissingDependencyError(SparklakeError, ImportError):
    """Says that an optional part is not installed, and which extra brings it."""

    kind = "missing_dependency"


# --- the user ------------------------------------------------------------------------------------


class InterruptError(SparklakeError):
    """Says that the user has stopped what was going on, as a shell does of SIGINT."""

    kind = "interrupted"
    exit_code = 130

    def __init__(
        self,
        message: str = "interrupted; what was not finished has changed no branch: run it again",
    ) -> None:
        super().__init__(message)
