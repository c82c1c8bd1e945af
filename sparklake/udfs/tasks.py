"""What every task body stands on: its settings, its tasks, and where its ranges go.

A body is a module-level generator from Arrow batches to Arrow batches. It opens its own store, only
writes immutable files named by content, and may run twice.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from sparklake.config import fast_root
from sparklake.graveler.blocks import Block, Blocks
from sparklake.graveler.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable import write_table
from sparklake.graveler.tables import describe_range, table_key, write_ranges
from sparklake.stores.objects import open_store
from sparklake.udfs.results import RangeResult, Result

TASK_SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("task", pa.binary(), nullable=False),
    ]
)

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


@contextmanager
def scratch_folder(root: Path | None = None) -> Iterator[Path]:
    """Makes a folder for temporary files, gone at the end; in memory where there is plenty.

    It is for what a task reads and writes: some tens of megabytes of tables, whose every file
    RocksDB syncs, which costs milliseconds on a disk. Give `disk_root()` for what may be larger.
    """
    with tempfile.TemporaryDirectory(prefix="sparklake-", dir=root or fast_root()) as folder:
        yield Path(folder)


@dataclass(slots=True)
class RangeSink:
    """Collects the ranges that a task writes, and puts them into the store in one batch."""

    store: ObjectStore
    range_records: int
    scratch: Path
    results: list[Result] = field(default_factory=list)
    _files: dict[str, Path] = field(default_factory=dict)

    def write(self, position: int, blocks: Blocks) -> None:
        """Cuts records in key order into ranges, as files in the scratch folder."""
        for written, path in write_ranges(blocks, self.range_records, self.scratch):
            self.results.append(RangeResult(position, written))
            self._files[table_key(written.info.id)] = path

    def write_one(self, records: Block) -> RangeInfo:
        """Writes the records of one range, already cut."""
        info = describe_range(records)
        path = self.scratch / f"{info.id}-{uuid.uuid4().hex}"
        write_table(path, records)
        self._files[table_key(info.id)] = path
        return info

    def put(self) -> None:
        """Makes the ranges durable in the store."""
        self.store.put_files_if_absent(self._files)


@contextmanager
def open_sink(workspace: Workspace) -> Iterator[RangeSink]:
    """Opens the store of a workspace for one task."""
    with scratch_folder() as scratch:
        yield RangeSink(open_store(workspace.storage_namespace), workspace.range_records, scratch)
