"""Steps of a repair, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sparklake.rows.findings import Finding


class RepairAction(str, Enum):
    """The action of a repair step."""

    RESTORE_TREE_FILE = "restore_tree_file"
    """Write a tree file from another copy."""
    REBUILD_RANGE = "rebuild_range"
    """Write a range from records of other trees."""
    REBUILD_TREE = "rebuild_tree"
    """Write a metarange from ranges of other trees and from unreferenced ranges."""
    COPY_OBJECT = "copy_object"
    """Write an object from an equal one."""
    REPLACE_ADDRESS = "replace_address"
    """Change a range to reference an equal object at a different address. Its id stays the same."""
    RESTORE_COMMITS = "restore_commits"
    """Write commits into the ref store from the dump."""
    FORGET_SUMMARY = "forget_summary"
    """Delete the change summary of a commit: searches of history read its tree instead."""
    RESTORE_REF = "restore_ref"
    """Create a branch or tag again, at the commit of the log or of the dump."""
    MOVE_REF = "move_ref"
    """Move a branch to its commit in the dump."""
    WRITE_DUMP = "write_dump"
    """Dump the refs again."""
    WRITE_MARK = "write_mark"
    """Write the ownership marker."""
    FIX_MARKER = "fix_marker"
    """Write or remove the marker of an open collection."""
    NOTHING = "nothing"
    """There is no source for a repair."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A repair of `target` from `source`, or the reason for no action."""

    action: RepairAction
    target: str
    source: str
    finding: Finding

    @property
    def is_possible(self) -> bool:
        """Whether there is anything to do."""
        return self.action is not RepairAction.NOTHING

    @property
    def text(self) -> str:
        """The step in one line."""
        if not self.is_possible:
            return f"cannot repair {self.target}: {self.source}"
        return f"{self.action.value.replace('_', ' ')} {self.target} from {self.source}"


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a step. `problem` is the reason for a failure, or ""."""

    step: RepairStep
    problem: str = ""

    @property
    def is_done(self) -> bool:
        return not self.problem
