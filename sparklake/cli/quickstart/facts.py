"""What the steps of the story have to say, in numbers and lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparklake.cli.quickstart.setting import FILES, TAG, Scene
from sparklake.cli.text import number, shown, size
from sparklake.errors import MergeConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.graveler.commits import Commit
    from sparklake.udfs.read import DiffRow

_LINES = 4
_SMALL, _LARGE = 10_000, 1_000_000
"""Bytes, where the classes of the table end."""


def inventory(scene: Scene) -> DataFrame:
    """Returns a table of the imported files, computed by Spark from the listing of the tag."""
    from pyspark.sql.functions import col, when

    size_class = (
        when(col("size") < _SMALL, "small").when(col("size") < _LARGE, "medium").otherwise("large")
    )
    objects = scene.repository.objects(TAG, FILES).to_df()
    columns = objects.select("path", "size", size_class.alias("size_class"))
    return columns.coalesce(1)


def ranges(scene: Scene, made: Commit) -> str:
    """Says how many ranges of a commit were written, and how many were those of its parents."""
    tree = scene.repository.tree(made.id).ranges
    parents = (scene.repository.tree(parent).ranges for parent in made.parents)
    known = {each.id for ranges in parents for each in ranges}
    new = sum(each.id not in known for each in tree)
    return f"{number(new, 'range')} written, {len(tree) - new} taken over by id"


def changes(rows: Iterable[DiffRow]) -> list[str]:
    """Returns the first lines of a diff and its sums."""
    counts: Counter[str] = Counter()
    first: list[str] = []
    for row in rows:
        counts[row.type.value] += 1
        if len(first) < _LINES:
            first.append(f"{row.type.value:<8} {size(row.size):>9}  {shown(row.path)}")
    more = counts.total() - len(first)
    sums = ", ".join(f"{found:,} {kind}" for kind, found in sorted(counts.items()))
    return [*first, *([f"... and {more:,} more"] if more else []), sums]


def diff_rows(error: MergeConflictError) -> list[DiffRow]:
    """Returns the conflicts of a failed merge as rows."""
    rows: list[DiffRow] = error.conflicts  # type: ignore[assignment]  # errors.py knows no rows
    return rows
