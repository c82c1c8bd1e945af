"""Rows that are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from sparklake.engine.base import Body
from sparklake.engine.choice import Runners
from sparklake.engine.execution import TASK_RECORDS
from sparklake.graveler.keys import Interval
from sparklake.graveler.packing import divided, pack
from sparklake.graveler.planning import Plan
from sparklake.udfs.tasks import encode_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class RowShape(Generic[Row]):
    """Is the form of some rows: in Arrow, in Spark (DDL), and as Python objects."""

    schema: pa.Schema
    ddl: str
    decode: Callable[[pa.RecordBatch], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """Is the answer of a reading verb, in key order. Iterating streams it, task by task."""

    plan: Plan
    shape: RowShape[Row]
    _body: Body
    _runners: Runners

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from self.shape.decode(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Streams Arrow batches of the shape's schema."""
        runner = self._runners.choose(self.plan.records)
        yield from runner.stream(self._body, self._work())

    def within(self, interval: Interval) -> Rows[Row]:
        """Returns the rows in an interval of keys; only what may hold some is read."""
        return replace(self, plan=self.plan.restricted(interval))

    def to_arrow(self) -> pa.Table:
        """Returns all rows as one Arrow table, in memory."""
        return pa.Table.from_batches(self.batches(), self.shape.schema)

    def to_df(self) -> DataFrame:
        """Returns the rows as a Spark DataFrame, computed by its tasks; partitions are in order."""
        tasks = self._runners.on_spark().tasks(self._work())
        return tasks.mapInArrow(self._body, self.shape.ddl)

    def _work(self) -> pa.Table:
        return encode_tasks(pack(divided(self.plan, TASK_RECORDS), TASK_RECORDS))
