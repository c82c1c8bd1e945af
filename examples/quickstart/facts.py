"""Lines of text about the results of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparklake.cli.text import one_line, size
from sparklake.errors import MergeConflictError
from sparklake.visible import count_of

if TYPE_CHECKING:
    from examples.quickstart.demo import Demo
    from sparklake.graveler.commits import Commit
    from sparklake.rows.diffs import DiffRow

_LINES = 4


def ranges(demo: Demo, made: Commit) -> str:
    """Return how many ranges a commit wrote, and how many it shares with its parents."""
    tree = demo.repository.tree(made.id).ranges
    parents = (demo.repository.tree(parent).ranges for parent in made.parents)
    known = {each.id for ranges in parents for each in ranges}
    new = sum(each.id not in known for each in tree)
    return f"{count_of(new, 'range')} written, {len(tree) - new} reused by id"


def changes(rows: Iterable[DiffRow]) -> list[str]:
    """Return the first lines of a diff and its counts."""
    counts: Counter[str] = Counter()
    first: list[str] = []
    for row in rows:
        counts[row.type.value] += 1
        if len(first) < _LINES:
            first.append(f"{row.type.value:<8} {size(row.size):>9}  {one_line(row.path)}")
    more = counts.total() - len(first)
    sums = ", ".join(f"{found:,} {kind}" for kind, found in sorted(counts.items()))
    return [*first, *([f"... and {more:,} more"] if more else []), sums]


def diff_rows(error: MergeConflictError) -> list[DiffRow]:
    """Return the conflicts of a failed merge as rows."""
    rows: list[DiffRow] = error.conflicts  # type: ignore[assignment]  # errors.py knows no rows
    return rows
