"""Errors of verbs that cannot change a branch in its present state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake._html import html_table
from sparklake.errors.root import SparklakeError

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    def __reduce__(self) -> tuple[type[ExpiredError], tuple[str, str]]:
        return type(self), (str(self), self.commit_id)


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

    def __reduce__(self) -> tuple[type[AddressConflictError], tuple[str, str, str]]:
        return type(self), (str(self), self.path, self.address)


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
    exit_code = 3

    def __init__(self, message: str, branch: str = "") -> None:
        super().__init__(message)
        self.branch = branch

    def __reduce__(self) -> tuple[type[TransactionError], tuple[str, str]]:
        return type(self), (str(self), self.branch)
