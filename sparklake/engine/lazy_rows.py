"""Lazily computed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from sparklake._html import html_table
from sparklake.engine.base import Body, rows_with_progress
from sparklake.engine.choice import Runners
from sparklake.engine.ddl import spark_ddl
from sparklake.engine.explanation import Explanation, explained
from sparklake.graveler.algebra.changes import BlockChanges
from sparklake.graveler.keys import Interval
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan
from sparklake.udfs.tasks import encode_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = TypeVar("Row")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class RowShape(Generic[Row]):
    """The schema of rows in Arrow and Python. Notebooks do not show `hidden` columns."""

    schema: pa.Schema
    decode: Callable[[pa.RecordBatch], Iterator[Row]]
    hidden: frozenset[str] = frozenset()

    @property
    def shown(self) -> list[str]:
        return [each for each in self.schema.names if each not in self.hidden]


@dataclass(frozen=True, slots=True)
class Job:
    """A verb's reads: their title in the Spark UI, their runners, and the sides of their plan."""

    verb: str
    title: str
    runners: Runners
    sides: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """The result of a reading verb, in key order. Iterating streams it task by task."""

    plan: Plan
    shape: RowShape[Row]
    _job: Job
    _body: Body

    @property
    def title(self) -> str:
        """The description of their jobs in the Spark UI."""
        return self._job.title

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from self.shape.decode(batch)

    def _repr_html_(self) -> str:
        rows = (row for batch in self.batches() for row in batch.to_pylist())
        return html_table(self._job.title, self.shape.shown, rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream Arrow batches of the shape's schema."""
        runner = self._job.runners.choose(self.plan.records, self._job.title)
        task_records = runner.task_records(self.plan.records)
        batches = runner.stream(*self.shared(task_records))
        plan = divided(self.plan, task_records)
        yield from rows_with_progress(batches, plan, self._job.runners.progress)

    def explain(self) -> Explanation:
        """Explain the engine and the reads. Nothing is read."""
        return explained(self._job.verb, self.plan, divided, self._job.runners, self._job.sides)

    def within(self, interval: Interval) -> Rows[Row]:
        """Return the rows in an interval of keys. Only overlapping ranges are read."""
        return replace(self, plan=self.plan.restricted(interval))

    def encoded_as(
        self, shape: RowShape[Other], encode: Callable[[BlockChanges], pa.RecordBatch]
    ) -> Rows[Other]:
        """Return the same changes as rows of another shape. The rows must be changes."""
        changes: Callable[..., Iterator[pa.RecordBatch]] = self._body
        return Rows(self.plan, shape, self._job, partial(changes, encode=encode))

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table, in memory."""
        return pa.Table.from_batches(self.batches(), self.shape.schema)

    def to_df(self) -> DataFrame:
        """Return the rows as a lazy Spark DataFrame. Its partitions are in order."""
        runner = self._job.runners.on_spark()
        body, work = self.shared(runner.task_records(self.plan.records))
        return runner.tasks(work).mapInArrow(body, spark_ddl(self.shape.schema))

    def shared(self, task_records: int) -> tuple[Body, pa.Table]:
        """Return the body and its rows of work, for callers with their own tasks."""
        return self._body, encode_tasks(pack_tasks(divided(self.plan, task_records), task_records))
