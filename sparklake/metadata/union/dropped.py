"""Commits dropped when a merge selects one side of a whole table."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.visible import count_of


@dataclass(frozen=True, slots=True)
class DroppedCommits:
    """Dropped commits of `source` or `dest`. `added_rows` is None if unknown."""

    side: str
    commits: int
    added_files: int
    added_rows: int | None
    removed_files: int

    def __str__(self) -> str:
        rows = "unknown rows" if self.added_rows is None else count_of(self.added_rows, "row")
        effects = f"added {count_of(self.added_files, 'file')} with {rows}"
        removed = f", removed {count_of(self.removed_files, 'file')}" if self.removed_files else ""
        return f"{count_of(self.commits, 'commit')} of {self.side} ({effects}{removed})"
