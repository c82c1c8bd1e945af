"""Errors, grouped by how a caller handles them.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message states what
failed, on what, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from sparklake._html import html_table, text_table
from sparklake.visible import visible_line, visible_text


class SparklakeError(Exception):
    """The base class of sparklake's errors.

    Its text is one line without control characters, even if names contain some. With
    `has_lines` it quotes the output of another program, and keeps line ends and tabs.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    has_lines: ClassVar[bool] = False

    def __init_subclass__(
        cls, kind: str = "", exit_code: int | None = None, has_lines: bool | None = None
    ) -> None:
        super().__init_subclass__()
        cls.kind = kind or cls.kind
        cls.exit_code = cls.exit_code if exit_code is None else exit_code
        cls.has_lines = cls.has_lines if has_lines is None else has_lines

    def __str__(self) -> str:
        text = super().__str__()
        return visible_text(text) if self.has_lines else visible_line(text)

    def _render_traceback_(self) -> list[str]:
        """Return what notebooks show: the user's own lines, and the error."""
        # Lazy import: only notebooks and IPython need it.
        from sparklake._traces import own_frames

        return [*own_frames(self), f"{type(self).__name__}: {self}", *self._detail_lines()]

    def _detail_lines(self) -> list[str]:
        return []


class MissingDependencyError(SparklakeError, ImportError, kind="missing_dependency", exit_code=15):
    """A missing optional package. The message contains its extra."""


class InterruptError(SparklakeError, kind="interrupted", exit_code=130):
    """An interruption by the user, like SIGINT in a shell."""

    def __init__(
        self, message: str = "interrupted; unfinished work changed no branch. Run the command again"
    ) -> None:
        super().__init__(message)


# --- invalid arguments: correct the call ----------------------------------------------------------


class InvalidInputError(SparklakeError, ValueError, kind="invalid_input", exit_code=2):
    """An invalid argument. Nothing was read or written."""


class InvalidUriError(InvalidInputError, kind="invalid_uri"):
    """A malformed URI, or one of the wrong kind."""


class InvalidNameError(InvalidInputError, kind="invalid_name"):
    """An invalid name of a repository, branch or tag."""


class InvalidRefError(InvalidInputError, kind="invalid_ref"):
    """A malformed ref expression."""


class InvalidKeyError(InvalidInputError, kind="invalid_key"):
    """An invalid object key: empty, too long, not UTF-8 or outside of the root."""


class InvalidRowsError(InvalidInputError, kind="invalid_rows"):
    """Invalid object rows: a duplicate, a bad size, too much data."""


class IdempotencyKeyReusedError(InvalidInputError, kind="idempotency_key_reused"):
    """An idempotency key used with a different verb or different arguments."""


class UnsupportedNamesError(InvalidInputError, kind="unsupported_names"):
    """Object names not supported by the destination of an export.

    `objects` lists the first ones with the reason. `count` is the total.
    """

    def __init__(
        self, message: str, objects: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> None:
        super().__init__(message)
        self.objects = list(objects)
        self.count = count


class InvalidImportError(InvalidInputError, kind="import_errors"):
    """An import with invalid rows. No branch moved.

    `counts` has the number of rows per reason. `errors` is an Arrow table of the first rows.
    `errors_to` is the location of Parquet files with all rows, if requested.
    """

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


class InvalidHooksError(InvalidInputError, kind="invalid_hooks"):
    """An invalid hook file. The message contains the line."""


class InvalidDumpError(SparklakeError, ValueError, kind="invalid_dump", exit_code=10):
    """An inconsistent or unsupported refs dump."""


# --- names that do not exist, exist already, or are protected -------------------------------------


class NotFoundError(SparklakeError, LookupError, kind="not_found", exit_code=13):
    """A missing name, such as a label."""


class RepositoryNotFoundError(NotFoundError, FileNotFoundError, kind="repository_not_found"):
    """A missing repository."""


class RefNotFoundError(NotFoundError, FileNotFoundError, kind="ref_not_found"):
    """A ref without a matching branch, tag or commit."""


class AmbiguousRefError(RefNotFoundError, kind="ambiguous_ref"):
    """An ambiguous commit id prefix."""


class ObjectNotFoundError(NotFoundError, FileNotFoundError, kind="object_not_found"):
    """A missing object."""


class AlreadyExistsError(SparklakeError, FileExistsError, kind="already_exists", exit_code=14):
    """A name in use."""


class NamespaceInUseError(AlreadyExistsError, kind="namespace_in_use"):
    """A storage namespace in use by another repository, possibly deleted."""


class ProtectedError(SparklakeError, PermissionError, kind="protected", exit_code=11):
    """A change forbidden by a branch-protection rule, or a deletion of the default branch."""


class ReadOnlyError(SparklakeError, PermissionError, kind="read_only", exit_code=11):
    """A change to a read-only repository."""


class ImmutableRefError(SparklakeError, PermissionError, kind="immutable_ref", exit_code=11):
    """A write to an immutable ref: a tag or a commit."""


# --- lost races: read again, then retry -----------------------------------------------------------


class RaceLostError(SparklakeError, kind="race_lost", exit_code=5):
    """A lost race: the branch kept moving, or another writer was faster."""

    @classmethod
    def of_new_run(cls, branch: str) -> RaceLostError:
        """Return the error of a move after a concurrent write."""
        return cls(f"another writer just staged a write to {branch!r}: try again")


class AlreadyCommittedError(RaceLostError, kind="already_committed"):
    """Staged changes already committed by another writer."""


class WriteFinishedError(RaceLostError, kind="write_finished"):
    """A table write that is already abandoned or staged. It stages nothing."""

    @classmethod
    def of(cls, write_id: str, branch: str) -> WriteFinishedError:
        """Return the error of a finished write."""
        return cls(
            f"the write {write_id} to {branch!r} is finished: it was abandoned, or its files are "
            "already staged. Nothing was staged now. Check the branch, and write again if "
            "necessary"
        )


class TableChangedError(RaceLostError, kind="table_changed"):
    """Concurrent commits to a Delta table."""


class UnexpectedHeadError(RaceLostError, kind="unexpected_head"):
    """A branch with an unexpected head."""


class CollectionStartedError(RaceLostError, kind="collection_started"):
    """A garbage collection started after the verb: run the verb again."""


class IdempotencyKeyInUseError(RaceLostError, kind="idempotency_key_in_use"):
    """An idempotency key in use by another run."""

    @classmethod
    def of(cls, key: str) -> IdempotencyKeyInUseError:
        """Return the error of a key in use."""
        return cls(
            f"another run uses the idempotency key {key!r}. This run changed nothing: run it "
            "again later with the same key to get the result"
        )


class CollectionRunningError(RaceLostError, kind="collection_running"):
    """A running garbage collection: wait until it finishes."""


class PurgeRunningError(RaceLostError, kind="purge_running"):
    """A running or unfinished purge: wait until it finishes, or resume it."""


# --- verbs that cannot change a branch in its present state ---------------------------------------


class HookFailedError(SparklakeError, kind="hook_failed", exit_code=6, has_lines=True):
    """A hook's rejection of an operation. No ref moved.

    `run_id` is the id of the run, for `sparklake hooks show`.
    """

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class HookNotAllowedError(HookFailedError, kind="hook_not_allowed"):
    """A guarding hook without permission to run here."""


class NothingToDoError(SparklakeError, kind="nothing_to_do", exit_code=4):
    """A no-op: the verb would change nothing."""


class NoChangesError(NothingToDoError, kind="no_changes"):
    """A commit or merge without changes."""


class DirtyBranchError(SparklakeError, kind="dirty_branch", exit_code=4):
    """Uncommitted changes: the verb would hide or lose them."""

    @classmethod
    def of_deletion(cls, branch: str, staged: str = "staged changes") -> DirtyBranchError:
        """Return the error of a deletion with staged changes."""
        return cls(
            f"{branch!r} has {staged}, which cannot be restored after a deletion: commit them, or "
            "delete them, too, with --discard-staged (in Python discard_staged=True)"
        )


class ExpiredError(SparklakeError, LookupError, kind="expired", exit_code=8):
    """An expired commit. Its objects are no longer retained.

    `commit_id` is its id. Its log and listings stay.
    """

    def __init__(self, message: str, commit_id: str = "") -> None:
        super().__init__(message)
        self.commit_id = commit_id


class PurgeBlockedError(SparklakeError, kind="purge_blocked", exit_code=4):
    """A purge of objects in use, on a branch or under other paths."""


class AddressConflictError(SparklakeError, kind="address_conflict", exit_code=4):
    """An equal object at a different address.

    Nothing was published. A range of the same objects exists, with `address` for the object at
    `path`.
    """

    def __init__(self, message: str, path: str = "", address: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.address = address


class ReplacementError(SparklakeError, kind="replacement", exit_code=4):
    """An import that would change or remove objects from elsewhere. Nothing was imported.

    `added`, `changed` and `removed` count the changes that it makes if it replaces them.
    """

    def __init__(self, message: str, added: int = 0, changed: int = 0, removed: int = 0) -> None:
        super().__init__(message)
        self.added = added
        self.changed = changed
        self.removed = removed

    @classmethod
    def of(cls, reason: str, added: int, changed: int, removed: int) -> ReplacementError:
        """Return the error for a reason."""
        return cls(
            f"nothing was imported: {reason}. Pass --replace (in Python replace=True) to replace "
            f"everything there ({added:,} added, {changed:,} changed, {removed:,} removed), "
            "exclude paths, or import under another prefix",
            added,
            changed,
            removed,
        )


class NewerDumpError(SparklakeError, kind="newer_dump", exit_code=4):
    """A newer refs dump, or newer trees, of another program. Nothing was dumped or restored."""


_SHOWN_FIELDS = {
    "path": "path",
    "base": "base_text",
    "source": "source_text",
    "dest": "dest_text",
    "reason": "reason",
}
"""The attribute of a conflict for each column of a table."""


class MergeConflictError(SparklakeError, kind="merge_conflict", exit_code=3):
    """Keys changed by both sides of a merge. Nothing was published.

    `conflicts` lists the first ones in key order. `count` is the total. `overlaps` are the rows of
    tables that both sides deleted or updated: table, file, positions and count.
    `Repository.overlapping_rows` reads them; `rows` has those that a command shows. After merges of
    rows, `conflict_rows` is a DataFrame of the rows in conflict, else None: `table`, `key` as JSON,
    `column` (null for a whole row), and `base`, `source` and `dest` as JSON. `first_conflict_rows`
    has those that a command shows.
    """

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
        self.first_conflict_rows: list[Mapping[str, Any]] = []

    def _repr_html_(self) -> str:
        return html_table(str(self), list(_SHOWN_FIELDS), self._rows())

    def _detail_lines(self) -> list[str]:
        return text_table(list(_SHOWN_FIELDS), self._rows()) if self.conflicts else []

    def _rows(self) -> Iterator[Mapping[str, object]]:
        for each in self.conflicts:
            yield {name: getattr(each, field, None) for name, field in _SHOWN_FIELDS.items()}


class StrategyError(SparklakeError, kind="strategy", exit_code=7, has_lines=True):
    """A failed merge strategy, or an invalid decision. Nothing was published."""


class TransactionError(SparklakeError, kind="transaction", exit_code=3):
    """A transaction with a failed merge. `branch` holds its work. `__cause__` is the reason."""

    def __init__(self, message: str, branch: str = "") -> None:
        super().__init__(message)
        self.branch = branch


# --- the systems below: object store, engines, Postgres -------------------------------------------


class StoreError(SparklakeError, OSError, kind="store", exit_code=12):
    """A failure of the object store."""


class StoreUnreachableError(StoreError, kind="store_unreachable"):
    """An unreachable or missing bucket or directory.

    `is_missing` is True if it is known not to exist.
    """

    is_missing = False

    @classmethod
    def of_missing(cls, message: str) -> StoreUnreachableError:
        """Return the error of a missing bucket or directory."""
        error = cls(message)
        error.is_missing = True
        return error


class StorePermissionError(StoreError, PermissionError, kind="store_permission", exit_code=11):
    """Credentials rejected by the object store."""


class ReadOnlyNamespaceError(StorePermissionError, kind="read_only_namespace"):
    """A namespace without write permission. Nothing was done."""


class MissingFileError(StoreError, kind="missing_file", exit_code=10):
    """A missing file of the lake.

    It is not a FileNotFoundError, which callers often treat as an answer instead of a loss.
    """


class PurgedError(MissingFileError, kind="purged"):
    """A purged object.

    `purge_id`, `who` and `date` identify the purge. `date` is in unix seconds.
    """

    def __init__(self, message: str, purge_id: str = "", who: str = "", date: int = 0) -> None:
        super().__init__(message)
        self.purge_id = purge_id
        self.who = who
        self.date = date


class CorruptFileError(StoreError, kind="corrupt_file", exit_code=10):
    """A damaged file of the lake: its content does not match its name."""


class LostResultError(SparklakeError, RuntimeError, kind="lost_result", exit_code=12):
    """A task result lost by the engine."""


class LakeClosedError(SparklakeError, ValueError, kind="lake_closed", exit_code=2):
    """A use of a closed lake."""


class RefStoreUnavailableError(
    SparklakeError, ConnectionError, kind="ref_store_unavailable", exit_code=12, has_lines=True
):
    """An unavailable Postgres."""


class LockHeldError(RefStoreUnavailableError, kind="lock_held"):
    """A Postgres lock held by another session. Nothing was changed."""


class RefsLostError(SparklakeError, kind="refs_lost", exit_code=10):
    """A ref store with lost commits or refs. Nothing was done."""
