"""Counts the ranges of a plan that have been read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sparklake.engine.base import Progress
from sparklake.graveler.planning.plan import Opened, Plan

if TYPE_CHECKING:
    import pyarrow as pa


def begin(progress: Progress, plan: Plan) -> None:
    """Says how many ranges a plan reads; one that two of its pieces share counts twice."""
    progress.begin(sum(map(range_count, plan.stretches)))


def range_count(piece: Opened) -> int:
    """Returns how many ranges are read for a piece."""
    return sum(len(side.ranges) for side in piece.sides)


def counted(
    batches: Iterable[pa.RecordBatch], plan: Plan, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Passes on the rows that a plan yields in the order of their paths.

    A piece has been read when a row from behind it has come, or the end.
    """
    begin(progress, plan)
    waiting = list(reversed(plan.stretches))
    for batch in batches:
        yield batch
        if batch.num_rows:
            key = batch.column("path")[-1].as_py().encode()
            while waiting and key not in waiting[-1].interval:
                progress.advance(range_count(waiting.pop()))
    progress.advance(sum(map(range_count, waiting)))
