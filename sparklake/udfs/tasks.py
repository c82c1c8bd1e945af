"""Tasks and their reports as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from sparklake.graveler.arrow_batches import required_schema, unpack
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import read_each, read_together

T = TypeVar("T")

Batches: TypeAlias = Iterable[pa.RecordBatch]
BatchStream: TypeAlias = Iterator[pa.RecordBatch]

TASK_SCHEMA = required_schema(position=pa.int64(), task=pa.binary())

REPORT_SCHEMA = required_schema(report=pa.binary())

_encode = msgspec.msgpack.Encoder().encode


def encode_tasks(tasks: Iterable[object]) -> pa.Table:
    """Return tasks as rows of TASK_SCHEMA, in order."""
    return task_table(map(_encode, tasks))


def task_table(encoded: Iterable[bytes]) -> pa.Table:
    column = pa.array(encoded, pa.binary())
    return pa.table([pa.array(range(len(column)), pa.int64()), column], schema=TASK_SCHEMA)


def encoded_tasks(batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column("task").to_pylist()


def decode_tasks(batches: Batches, kind: type[T]) -> Iterator[T]:
    return map(msgspec.msgpack.Decoder(kind).decode, encoded_tasks(batches))


def plan_tasks(batches: Batches) -> Iterator[Task]:
    return decode_tasks(batches, Task)


def packed_rows(batches: Batches) -> BatchStream:
    """Yield the rows of tasks packed by `pack_batches`."""
    for encoded in encoded_tasks(batches):
        yield from unpack(encoded)


def range_blocks(store: ObjectStore, batches: Batches) -> Iterator[Block]:
    """Yield the records of each range, for range tasks."""
    for ranges in decode_tasks(batches, tuple[RangeInfo, ...]):
        for group in read_together(ranges):
            yield from read_each(store, group)


def report_batch(report: object) -> pa.RecordBatch:
    return pa.record_batch([[_encode(report)]], schema=REPORT_SCHEMA)


def decode_reports(batches: Batches, kind: type[T]) -> Iterator[T]:
    decode = msgspec.msgpack.Decoder(kind).decode
    for batch in batches:
        yield from map(decode, batch.column("report").to_pylist())
