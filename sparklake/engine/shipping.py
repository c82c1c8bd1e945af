"""Rows that the driver has, as a DataFrame: shipped as Arrow streams, so none is converted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake.engine.ipc import pack, unpack
from sparklake.udfs.workspace import TASK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.engine.spark import SparkRunner


def packed_tasks(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns batches as a table of TASK_SCHEMA, compressed, a row each."""
    packed = pa.array([pack([each], compression="zstd") for each in batches], pa.binary())
    return pa.table([pa.array(range(len(packed)), pa.int64()), packed], schema=TASK_SCHEMA)


def unpacked_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields what `packed_tasks` has packed."""
    for batch in batches:
        for packed in batch.column("task"):
            yield from unpack(packed.as_py())


def shipped(runner: SparkRunner, batches: Iterable[pa.RecordBatch], ddl: str) -> DataFrame:
    """Returns batches as a DataFrame, a partition each, in their order."""
    return runner.tasks(packed_tasks(batches)).mapInArrow(unpacked_body, ddl)
