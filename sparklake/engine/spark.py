"""Runs bodies as Spark jobs, by the DataFrame API alone: classic Spark and Spark Connect alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake import errors
from sparklake.engine.base import Body, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_PARTITIONS = 10_000

# What bodies yield travels to the driver as Arrow IPC streams, a batch a row: no row is converted,
# and types, time zones and order stay as the body made them.
_PACKED = "batch binary"
_RECORDS = "key binary, stored binary"
_RAISED = re.compile(r"sparklake\.errors\.(\w+Error): (.*)")


class SparkRunner:
    """Runs every row of work as a Spark task."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def collect(self, body: Body, work: pa.Table) -> list[pa.RecordBatch]:
        """Runs a body over rows of work, a task each."""
        if not work.num_rows:
            return []
        return self._packed(self.frame(work).repartition(_partitions(work)), body)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work, fetching one task's results while the next one runs."""
        if not work.num_rows:
            return
        ordered = self.frame(work).repartitionByRange(_partitions(work), "position")
        batches = ordered.mapInArrow(partial(_pack, body), _PACKED)
        with _errors_of_tasks():
            for row in batches.toLocalIterator(prefetchPartitions=True):
                yield from _unpack(row.batch)

    def sort_and_collect(self, encode: Body, body: Body, rows: Rows) -> list[pa.RecordBatch]:
        """Runs `body` over the output of `encode`, partitioned and sorted by key."""
        source = rows if hasattr(rows, "mapInArrow") else self.frame(_table(rows))
        records = source.mapInArrow(encode, _RECORDS)
        ordered = records.repartitionByRange("key").sortWithinPartitions("key")
        return self._packed(ordered, body)

    def frame(self, rows: pa.Table) -> DataFrame:
        """Returns Arrow rows as a DataFrame."""
        if _takes_arrow():
            return self._spark.createDataFrame(rows)
        return self._spark.createDataFrame(rows.to_pandas())

    def _packed(self, rows: DataFrame, body: Body) -> list[pa.RecordBatch]:
        batches = rows.mapInArrow(partial(_pack, body), _PACKED)
        with _errors_of_tasks():
            return [batch for row in batches.collect() for batch in _unpack(row.batch)]


def _takes_arrow() -> bool:
    import pyspark

    version: str = pyspark.__version__
    major, _, _ = version.partition(".")
    return int(major) >= 4


def _partitions(work: pa.Table) -> int:
    return min(int(work.num_rows), MAX_PARTITIONS)


def _table(rows: Rows) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches(list(rows))


def _pack(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in body(batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()])], names=["batch"])


def _unpack(packed: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(bytes(packed)) as reader:
        yield from reader


@contextmanager
def _errors_of_tasks() -> Iterator[None]:
    """Raises what a task raised, where it is one of ours, in place of Spark's report of it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raised = _RAISED.search(str(error))
        kind = getattr(errors, raised[1], None) if raised else None
        if raised is None or kind is None:
            raise
        raise kind(raised[2].strip()) from error
