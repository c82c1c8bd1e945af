"""What every task body stands on: its settings, its tasks, and where its ranges go.

A body is a module-level generator from Arrow batches to Arrow batches. It opens its own store, only
writes immutable files named by content, and may run twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from sparklake.graveler.blocks import Block, Blocks
from sparklake.graveler.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable import write_table
from sparklake.graveler.tables import WrittenRange, describe_range, table_key, write_ranges
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_store

TASK_SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("task", pa.binary(), nullable=False),
    ]
)

_BYTES_PUT_AT_ONCE = 64 * 1024 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode


@dataclass(frozen=True, slots=True)
class Workspace:
    """Is what a task needs to know of its repository."""

    storage_namespace: str
    range_records: int


def encode_tasks(tasks: Iterable[Task]) -> pa.Table:
    """Returns tasks in key order as a table of TASK_SCHEMA, a row each."""
    encoded = pa.array([_encode(task) for task in tasks], pa.binary())
    return pa.table([pa.array(range(len(encoded))), encoded], schema=TASK_SCHEMA)


def decode_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[Task]:
    """Yields the tasks in batches of TASK_SCHEMA."""
    for batch in batches:
        for encoded in batch.column("task"):
            yield _decode(encoded.as_py())


@dataclass(slots=True)
class RangeSink:
    """Puts the ranges that a task writes into the store, many at a time.

    With `withheld`, nothing is put before `put` is called.
    """

    store: ObjectStore
    range_records: int
    scratch: Path
    withheld: bool = False
    _files: dict[str, Path] = field(default_factory=dict)
    _bytes: int = 0

    def write(self, blocks: Blocks) -> tuple[WrittenRange, ...]:
        """Cuts records in key order into ranges; returns them."""
        made = []
        for written, path in write_ranges(blocks, self.range_records, self.scratch):
            made.append(written)
            self._add(written.info, path)
        return tuple(made)

    def write_one(self, records: Block) -> RangeInfo:
        """Writes the records of one range, already cut."""
        info = describe_range(records)
        path = self.scratch / f"{info.id}-{uuid.uuid4().hex}"
        write_table(path, records)
        self._add(info, path)
        return info

    def put(self) -> None:
        """Makes the ranges durable in the store, and lets go of them here."""
        self.store.put_files_if_absent(self._files)
        for path in self._files.values():
            path.unlink(missing_ok=True)
        self._files, self._bytes = {}, 0

    def _add(self, info: RangeInfo, path: Path) -> None:
        self._files[table_key(info.id)] = path
        self._bytes += info.size
        if self._bytes >= _BYTES_PUT_AT_ONCE and not self.withheld:
            self.put()


@contextmanager
def open_sink(workspace: Workspace, *, withheld: bool = False) -> Iterator[RangeSink]:
    """Opens the store of a workspace for one task."""
    with scratch_folder() as scratch:
        store = open_store(workspace.storage_namespace)
        yield RangeSink(store, workspace.range_records, scratch, withheld)
