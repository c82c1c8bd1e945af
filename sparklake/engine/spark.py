"""Runs bodies as Spark jobs, by the DataFrame API alone: classic Spark and Spark Connect alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake import errors
from sparklake.engine.base import Body, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_PARTITIONS = 10_000

# What bodies yield travels to the driver as Arrow IPC streams, a batch a row: no row is converted,
# and types, time zones and order stay as the body made them.
_PACKED = "batch binary"
_RECORDS = "key binary, stored binary"
_TASKS = "position bigint, task binary"
_RAISED = re.compile(r"sparklake\.errors\.(\w+Error): (.*)")


class SparkRunner:
    """Runs every row of work as a Spark task."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def collect(self, body: Body, work: pa.Table) -> list[pa.RecordBatch]:
        """Runs a body over rows of work, a task each."""
        return self._packed(self.tasks(work), body) if work.num_rows else []

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work, fetching one task's results while the next one runs."""
        if not work.num_rows:
            return
        batches = self.tasks(work).mapInArrow(partial(_pack, body), _PACKED)
        with _errors_of_tasks():
            for row in batches.toLocalIterator(prefetchPartitions=True):
                yield from _unpack(row.batch)

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Runs `body` over the output of `encode`, partitioned and sorted by key."""
        rows = source if hasattr(source, "mapInArrow") else self._held(source)
        if rows is None:
            return []
        # Kept, since finding the intervals of keys reads all of it once: `encode` may hash files.
        with _kept(rows.mapInArrow(partial(_reported, encode), _RECORDS)) as records:
            ordered = records.repartitionByRange("key").sortWithinPartitions("key")
            return self._packed(ordered, body)

    def tasks(self, work: pa.Table) -> DataFrame:
        """Returns rows of work as a DataFrame: each its own partition, in their order.

        Spark's `repartition` begins anywhere, so some partitions get two rows and some get none.
        """
        if not work.num_rows:
            # Of an empty table Connect would not know the columns.
            return self._spark.createDataFrame([], _TASKS)
        frame, count = self.frame(work), min(work.num_rows, MAX_PARTITIONS)
        if count == 1:
            return frame.coalesce(1)
        return frame.repartitionByRange(count, "position").sortWithinPartitions("position")

    def frame(self, rows: pa.Table) -> DataFrame:
        """Returns Arrow rows as a DataFrame."""
        if _takes_arrow():
            return self._spark.createDataFrame(rows)
        return self._spark.createDataFrame(rows.to_pandas())

    def _held(self, source: Source) -> DataFrame | None:
        batches = source.to_batches() if isinstance(source, pa.Table) else list(source)
        table = pa.Table.from_batches(batches) if batches else pa.table({})
        return self.frame(table) if table.num_rows else None

    def _packed(self, rows: DataFrame, body: Body) -> list[pa.RecordBatch]:
        batches = rows.mapInArrow(partial(_pack, body), _PACKED)
        with _errors_of_tasks():
            return [batch for row in batches.collect() for batch in _unpack(row.batch)]


def _takes_arrow() -> bool:
    import pyspark

    version: str = pyspark.__version__
    major, _, _ = version.partition(".")
    return int(major) >= 4


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Keeps rows while they are in use; Spark computes them anew where it cannot (serverless)."""
    from pyspark.errors import PySparkException

    try:
        with suppress(PySparkException):
            rows.persist()
        yield rows
    finally:
        with suppress(PySparkException):
            rows.unpersist()


def _pack(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in _reported(body, batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()])], names=["batch"])


def _unpack(packed: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(bytes(packed)) as reader:
        yield from reader


def _reported(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a body in a task; an error of ours gets a message in one line, for the driver."""
    try:
        yield from body(batches)
    except errors.SparklakeError as error:
        message = json.dumps(str(error))
        raised = type(error)(message).with_traceback(error.__traceback__)
        raise raised from error.__cause__


@contextmanager
def _errors_of_tasks() -> Iterator[None]:
    """Raises what a task raised, where it is one of ours, in place of Spark's report of it."""
    try:
        yield
    except Exception as error:  # of Spark or of py4j, as the call may be
        ours = _find_raised(str(error))
        if ours is None:
            raise
        raise ours from error


def _find_raised(report: str) -> errors.SparklakeError | None:
    """Returns the last error of ours in a report: those before it are its causes."""
    for name, message in reversed(_RAISED.findall(report)):
        kind = getattr(errors, name, None)
        if kind is not None:
            with suppress(json.JSONDecodeError):
                message = json.loads(message)
            return kind(message)  # type: ignore[no-any-return]
    return None
