"""Merges of a table's rows: their counts, and errors about its keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.engine.spark import errors_of_tasks, kept_rows
from sparklake.errors import InvalidInputError
from sparklake.session import job_description
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.formats import TableRows
from sparklake.verbs.tables.row_diff import RowCounts

if TYPE_CHECKING:
    from sparklake.frames.tables.row_merge import RowMerge

_SHOWN_KEYS = 3


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The merged rows of a table, and the numbers of changes to dest and of conflicting rows."""

    merge: RowMerge
    counts: RowCounts
    conflicts: int


@contextmanager
def merged_rows(context: Context, table: TableRows, rows: Rows) -> Iterator[MergedRows]:
    """Merge the rows of a table in one Spark job, and keep them while in use.

    Raises:
        InvalidInputError: The key or the schemas do not allow a merge.
        StrategyError: The function for conflicting rows fails.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import row_merge as frames

    schema = frames.merged_schema(*table.schemas())
    merge = frames.row_merge(table.sides(), rows, schema, rows.key or table.key)
    spark, title = context.runners.session(), context.title("merge rows", table.folder)
    with job_description(spark, title), errors_of_tasks(), kept_rows(merge.rows) as kept:
        merge = merge.over(kept)
        counts = {each["outcome"]: each["count"] for each in merge.counts().collect()}
        _check_keys(table, merge, counts)
        changes = RowCounts(*(counts.get(each, 0) for each in frames.OPERATIONS))
        yield MergedRows(merge, changes, counts.get(frames.CONFLICT, 0))


def _check_keys(table: TableRows, merge: RowMerge, counts: dict[str, int]) -> None:
    from sparklake.frames.tables.row_merge import NULL_KEY, REPEATED

    for outcome, count in sorted(counts.items()):
        if outcome == NULL_KEY or outcome.startswith(REPEATED):
            keys = [row["key"] for row in merge.keys(outcome).take(_SHOWN_KEYS)]
            more = f" and {count - len(keys):,} more" if count > len(keys) else ""
            raise InvalidInputError(
                f"rows of {table.folder!r} have a {outcome.replace(REPEATED, 'key repeated in ')}: "
                f"{', '.join(keys)}{more}. Choose key columns that identify each row"
            )
