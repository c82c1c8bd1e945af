"""The engine interface: run task bodies and report progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from sparklake.graveler.planning.plan import Opened, Plan

Body = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A generator from batches to batches that may run twice; it is shipped to executors."""

Source = Any
"""A pyarrow Table, an iterable of record batches, a Spark DataFrame, or Work."""


@dataclass(frozen=True, slots=True)
class Work:
    """A source of which each row, of TASK_SCHEMA, is a task by itself, whatever comes of it."""

    rows: pa.Table


MAX_TASK_RECORDS = 250_000
"""How many records a task reads at most, about: a few seconds' work."""

_MIN_TASK_RECORDS = 20_000
TASKS_A_WORKER = 4
"""How many tasks a plan has for each worker: enough for all to end at about the same time."""


def shared_task_records(records: int, workers: int) -> int:
    """Return how many records a task should read of a plan that some workers share."""
    wanted = records // (TASKS_A_WORKER * workers)
    return min(max(wanted, _MIN_TASK_RECORDS), MAX_TASK_RECORDS)


class Runner(Protocol):
    """Runs task bodies."""

    @property
    def name(self) -> str:
        """What it is called in plans and reports."""

    def task_records(self, records: int) -> int:
        """Return how many records a task should read of a plan that reads `records`."""

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, in parallel where it can; for small results.

        Yields what comes of a row of work when that is done. Batches of one row of work stay in
        order, those of several need not.
        """

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work; yield what it yields in the order of the rows."""

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Run `encode` over a source, sorts what it yields by key, and runs `body` over that.

        `encode` yields RECORD_SCHEMA. `body` sees keys in ascending order; where there are several
        partitions, each is an interval of keys.
        """


class Progress(Protocol):
    """Told how far a plan has come, in ranges read. Nothing waits for it."""

    def begin(self, ranges: int) -> None:
        """Note that a plan starts which reads some number of ranges."""

    def advance(self, ranges: int) -> None:
        """Note that so many ranges more have been read."""


class Unwatched:
    """Progress that nobody follows."""

    def begin(self, ranges: int) -> None:
        """Do nothing."""

    def advance(self, ranges: int) -> None:
        """Do nothing."""


UNWATCHED: Progress = Unwatched()


def begin(progress: Progress, plan: Plan) -> None:
    """Says how many ranges a plan reads; one that two of its pieces share counts twice."""
    progress.begin(sum(map(range_count, plan.stretches)))


def range_count(piece: Opened) -> int:
    """Return how many ranges are read for a piece."""
    return sum(len(side.ranges) for side in piece.sides)


def counted(
    batches: Iterable[pa.RecordBatch], plan: Plan, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Pass on the rows that a plan yields in the order of their paths.

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
