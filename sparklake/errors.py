"""Errors, grouped by how a caller handles them.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message states what
failed, on what, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
    """A missing optional package. The message contains its extra."""

    kind = "missing_dependency"
    exit_code = 15


class InterruptError(SparklakeError):
    """An interruption by the user, like SIGINT in a shell."""

    kind = "interrupted"
    exit_code = 130

    def __init__(
        self, message: str = "interrupted; unfinished work changed no branch. Run the command again"
    ) -> None:
        super().__init__(message)


# --- invalid arguments: correct the call ----------------------------------------------------------


class InvalidInputError(SparklakeError, ValueError):
    """An invalid argument. Nothing was read or written."""

    kind = "invalid_input"
    exit_code = 2


class InvalidUriError(InvalidInputError):
    """A malformed URI, or one of the wrong kind."""

    kind = "invalid_uri"


class InvalidNameError(InvalidInputError):
    """An invalid name of a repository, branch or tag."""

    kind = "invalid_name"


class InvalidRefError(InvalidInputError):
    """A malformed ref expression."""

    kind = "invalid_ref"


class InvalidKeyError(InvalidInputError):
    """An invalid object key: empty, too long, not UTF-8 or outside of the root."""

    kind = "invalid_key"


class InvalidRowsError(InvalidInputError):
    """Invalid object rows: a duplicate, a bad size, too much data."""

    kind = "invalid_rows"


class IdempotencyKeyReusedError(InvalidInputError):
    """An idempotency key used with a different verb or different arguments."""

    kind = "idempotency_key_reused"


class UnsupportedNamesError(InvalidInputError):
    """Object names not supported by the destination of an export.

    `objects` lists the first ones with the reason. `count` is the total.
    """

    kind = "unsupported_names"

    def __init__(
        self, message: str, objects: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> None:
        super().__init__(message)
        self.objects = list(objects)
        self.count = count


class InvalidImportError(InvalidInputError):
    """An import with invalid rows. No branch moved.

    `counts` has the number of rows per reason. `errors` is an Arrow table of the first rows.
    `errors_to` is the location of Parquet files with all rows, if requested.
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
    """An invalid hook file. The message contains the line."""

    kind = "invalid_hooks"


class InvalidDumpError(SparklakeError, ValueError):
    """An inconsistent or unsupported refs dump."""

    kind = "invalid_dump"
    exit_code = 10


# --- names that do not exist, exist already, or are protected -------------------------------------


class NotFoundError(SparklakeError, LookupError):
    """A missing name, such as a label."""

    kind = "not_found"
    exit_code = 13


class RepositoryNotFoundError(NotFoundError, FileNotFoundError):
    """A missing repository."""

    kind = "repository_not_found"


class RefNotFoundError(NotFoundError, FileNotFoundError):
    """A ref without a matching branch, tag or commit."""

    kind = "ref_not_found"


class AmbiguousRefError(RefNotFoundError):
    """An ambiguous commit id prefix."""

    kind = "ambiguous_ref"


class ObjectNotFoundError(NotFoundError, FileNotFoundError):
    """A missing object."""

    kind = "object_not_found"


class AlreadyExistsError(SparklakeError, FileExistsError):
    """A name in use."""

    kind = "already_exists"
    exit_code = 14


class NamespaceInUseError(AlreadyExistsError):
    """A storage namespace in use by another repository, possibly deleted."""

    kind = "namespace_in_use"


class ProtectedError(SparklakeError, PermissionError):
    """A change forbidden by a branch-protection rule, or a deletion of the default branch."""

    kind = "protected"
    exit_code = 11


class ReadOnlyError(SparklakeError, PermissionError):
    """A change to a read-only repository."""

    kind = "read_only"
    exit_code = 11


class ImmutableRefError(SparklakeError, PermissionError):
    """A write to an immutable ref: a tag or a commit."""

    kind = "immutable_ref"
    exit_code = 11


# --- lost races: read again, then retry -----------------------------------------------------------


class RaceLostError(SparklakeError):
    """A lost race: the branch kept moving, or another writer was faster."""

    kind = "race_lost"
    exit_code = 5

    @classmethod
    def of_new_run(cls, branch: str) -> RaceLostError:
        """Return the error of a move after a concurrent write."""
        return cls(f"another writer just staged a write to {branch!r}: try again")


class AlreadyCommittedError(RaceLostError):
    """Staged changes already committed by another writer."""

    kind = "already_committed"


class WriteFinishedError(RaceLostError):
    """A table write that is already abandoned or staged. It stages nothing."""

    kind = "write_finished"

    @classmethod
    def of(cls, write_id: str, branch: str) -> WriteFinishedError:
        """Return the error of a finished write."""
        return cls(
            f"the write {write_id} to {branch!r} is no longer open: it was abandoned, or its "
            "files are already staged. Nothing was staged now. Check the branch, and write "
            "again if necessary"
        )


class TableChangedError(RaceLostError):
    """Concurrent commits to a Delta table."""

    kind = "table_changed"


class UnexpectedHeadError(RaceLostError):
    """A branch with an unexpected head."""

    kind = "unexpected_head"


class CollectionStartedError(RaceLostError):
    """A garbage collection started after the verb: run the verb again."""

    kind = "collection_started"


class IdempotencyKeyInUseError(RaceLostError):
    """An idempotency key in use by another run."""

    kind = "idempotency_key_in_use"

    @classmethod
    def of(cls, key: str) -> IdempotencyKeyInUseError:
        """Return the error of a key in use."""
        return cls(
            f"another run uses the idempotency key {key!r}. This run changed nothing: run it "
            "again later with the same key to get the result"
        )


class CollectionRunningError(RaceLostError):
    """A running garbage collection: wait until it finishes."""

    kind = "collection_running"


class PurgeRunningError(RaceLostError):
    """A running or unfinished purge: wait until it finishes, or resume it."""

    kind = "purge_running"


# --- verbs that cannot change a branch in its present state ---------------------------------------


class HookFailedError(SparklakeError):
    """A hook's rejection of an operation. No ref moved.

    `run_id` is the id of the run, for `sparklake hooks show`.
    """

    kind = "hook_failed"
    has_lines = True
    exit_code = 6

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class HookNotAllowedError(HookFailedError):
    """A guarding hook without permission to run here."""

    kind = "hook_not_allowed"


class NothingToDoError(SparklakeError):
    """A no-op: the verb would change nothing."""

    kind = "nothing_to_do"
    exit_code = 4


class NoChangesError(NothingToDoError):
    """A commit or merge without changes."""

    kind = "no_changes"


class DirtyBranchError(SparklakeError):
    """Uncommitted changes: the verb would hide or lose them."""

    kind = "dirty_branch"
    exit_code = 4

    @classmethod
    def of_deletion(cls, branch: str, staged: str = "staged changes") -> DirtyBranchError:
        """Return the error of a deletion with staged changes."""
        return cls(
            f"{branch!r} has {staged}, which cannot be restored after a deletion: commit them, or "
            "delete them, too, with --discard-staged (in Python discard_staged=True)"
        )


class ExpiredError(SparklakeError, LookupError):
    """An expired commit. Its objects are no longer retained.

    `commit_id` is its id. Its log and listings stay.
    """

    kind = "expired"
    exit_code = 8

    def __init__(self, message: str, commit_id: str = "") -> None:
        super().__init__(message)
        self.commit_id = commit_id


class PurgeBlockedError(SparklakeError):
    """A purge of objects in use, on a branch or under other paths."""

    kind = "purge_blocked"
    exit_code = 4


class AddressConflictError(SparklakeError):
    """An equal object at a different address.

    Nothing was published. A range of the same objects exists, with `address` for the object at
    `path`.
    """

    kind = "address_conflict"
    exit_code = 4

    def __init__(self, message: str, path: str = "", address: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.address = address


class NewerDumpError(SparklakeError):
    """A newer refs dump, or newer trees, of another program. Nothing was dumped or restored."""

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
    """Keys changed by both sides of a merge. Nothing was published.

    `conflicts` lists the first ones in key order. `count` is the total. `overlaps` are the rows of
    Delta tables that both sides deleted or updated: table, file, positions and count.
    `Repository.overlapping_rows` reads them; `rows` has those that a command shows. After merges of
    rows, `conflict_rows` is a DataFrame of the rows in conflict, else None: `table`, `key` as JSON,
    `column` (null for a whole row), and `base`, `source` and `dest` as JSON.
    """

    kind = "merge_conflict"
    exit_code = 3

    def __init__(
        self,
        message: str,
        conflicts: Sequence[object] = (),
        count: int = 0,
        overlaps: Sequence[object] = (),
        conflict_rows: Any = None,
    ) -> None:
        super().__init__(message)
        self.conflicts = list(conflicts)
        self.count = count
        self.overlaps = list(overlaps)
        self.rows: list[Mapping[str, Any]] = []
        self.conflict_rows = conflict_rows

    def _repr_html_(self) -> str:
        rows = (
            {name: getattr(each, field, None) for name, field in _SHOWN_FIELDS.items()}
            for each in self.conflicts
        )
        return html_table(str(self), list(_SHOWN_FIELDS), rows)


class StrategyError(SparklakeError):
    """A failed merge strategy, or an invalid decision. Nothing was published."""

    kind = "strategy"
    has_lines = True
    exit_code = 7


class TransactionError(SparklakeError):
    """A transaction with a failed merge. `branch` holds its work. `__cause__` is the reason."""

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
    """An unreachable or missing bucket or directory.

    `is_missing` is True if it is known not to exist.
    """

    kind = "store_unreachable"
    is_missing = False

    @classmethod
    def of_missing(cls, message: str) -> StoreUnreachableError:
        """Return the error of a missing bucket or directory."""
        error = cls(message)
        error.is_missing = True
        return error


class StorePermissionError(StoreError, PermissionError):
    """Credentials rejected by the object store."""

    kind = "store_permission"
    exit_code = 11


class ReadOnlyNamespaceError(StorePermissionError):
    """A namespace without write permission. Nothing was done."""

    kind = "read_only_namespace"


class MissingFileError(StoreError):
    """A missing file of the lake.

    It is not a FileNotFoundError, which callers often treat as an answer instead of a loss.
    """

    kind = "missing_file"
    exit_code = 10


class PurgedError(MissingFileError):
    """A purged object.

    `purge_id`, `who` and `date` identify the purge. `date` is in unix seconds.
    """

    kind = "purged"

    def __init__(self, message: str, purge_id: str = "", who: str = "", date: int = 0) -> None:
        super().__init__(message)
        self.purge_id = purge_id
        self.who = who
        self.date = date


class CorruptFileError(StoreError):
    """A damaged file of the lake: its content does not match its name."""

    kind = "corrupt_file"
    exit_code = 10


class LostResultError(SparklakeError, RuntimeError):
    """A task result lost by the engine."""

    kind = "lost_result"
    exit_code = 12


class RefStoreUnavailableError(SparklakeError, ConnectionError):
    """An unavailable Postgres."""

    kind = "ref_store_unavailable"
    exit_code = 12
    has_lines = True


class LockHeldError(RefStoreUnavailableError):
    """A Postgres lock held by another session. Nothing was changed."""

    kind = "lock_held"


class RefsLostError(SparklakeError):
    """A ref store with lost commits or refs. Nothing was done."""

    kind = "refs_lost"
    exit_code = 10
