"""The engine interface: task bodies and progress reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sparklake.graveler.planning.plan import OpenPiece, Plan

Body: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""A generator from batches to batches. It may run twice, and is shipped to executors."""

Source = Any
"""A pyarrow Table, an iterable of record batches, a Spark DataFrame, Sortable, or Work."""


@dataclass(frozen=True, slots=True)
class Work:
    """A source of separate tasks (TASK_SCHEMA) with any output size."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Sortable:
    """A DataFrame sortable by a column. Its encoding preserves the order."""

    rows: DataFrame
    by: str


MAX_TASK_RECORDS = 250_000
"""The approximate maximum number of records in a task: a few seconds of work."""

_MIN_TASK_RECORDS = 20_000
TASKS_A_WORKER = 4
"""The tasks of a plan per worker: enough for all to finish at about the same time."""


def shared_task_records(records: int, workers: int) -> int:
    return min(max(records // (TASKS_A_WORKER * workers), _MIN_TASK_RECORDS), MAX_TASK_RECORDS)


class Runner(Protocol):
    """An engine for task bodies."""

    @property
    def name(self) -> str:
        """The name in plans and reports."""

    def task_records(self, records: int) -> int:
        """Return the number of records in a task, for a plan over `records`."""

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work with small results, in parallel if possible.

        Rows of work finish in any order. Batches of one row of work stay in order.
        """

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, and yield its output in row order."""

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Run `encode` over a source, sort its output by key, and run `body` over it.

        `encode` yields RECORD_SCHEMA, in key order for rows in the order of their paths. `body`
        gets keys in ascending order. With several partitions, each is an interval of keys.
        """


class Amount(NamedTuple):
    """A number of objects, and their bytes."""

    objects: int
    size: int


def unknown_total() -> None:
    """Return the total for work of unknown size."""


class Progress(Protocol):
    """An observer of a verb's progress, in ranges read, or in objects and bytes.

    It never blocks the work. Tasks and batches are reported, not single objects.
    """

    def begin(self, ranges: int) -> None:
        """Report the start of a plan with its range count."""

    def advance(self, ranges: int) -> None:
        """Report the ranges read since the last report."""

    def begin_objects(self, total: Callable[[], Amount | None]) -> None:
        """Report the start of work on objects.

        `total` returns their number and bytes, or None if unknown. It may be slow.
        """

    def advance_objects(self, objects: int, size: int) -> None:
        """Report the objects done since the last report and their bytes, 0 if unknown."""


class NoProgress:
    def begin(self, ranges: int) -> None: ...
    def advance(self, ranges: int) -> None: ...
    def begin_objects(self, total: Callable[[], Amount | None]) -> None: ...
    def advance_objects(self, objects: int, size: int) -> None: ...


UNWATCHED: Progress = NoProgress()


def begin(progress: Progress, plan: Plan) -> None:
    """Report the ranges in a plan. A range shared by two pieces counts twice."""
    progress.begin(sum(map(range_count, plan.stretches)))


def range_count(piece: OpenPiece) -> int:
    return sum(len(side.ranges) for side in piece.sides)


def watched(progress: Progress, encode: Body) -> Body:
    """Wrap a body to report its rows as objects in this process."""

    def encode_watched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in encode(batches):
            yield batch
            progress.advance_objects(batch.num_rows, 0)

    progress.begin_objects(unknown_total)
    return encode_watched


def rows_with_progress(
    batches: Iterable[pa.RecordBatch], plan: Plan, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Yield a plan's rows in order. A piece counts as read at the next row after it."""
    begin(progress, plan)
    waiting = list(reversed(plan.stretches))
    for batch in batches:
        yield batch
        if batch.num_rows:
            key = batch.column("path")[-1].as_py().encode()
            while waiting and key not in waiting[-1].interval:
                progress.advance(range_count(waiting.pop()))
    progress.advance(sum(map(range_count, waiting)))
