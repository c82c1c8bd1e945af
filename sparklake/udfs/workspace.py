"""The base of every task body: tasks, and the sink of its ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from sparklake.graveler.blocks.block import Block, Blocks
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import WrittenRange, make_range, table_key, write_ranges
from sparklake.udfs.adopted_ranges import check_adopted
from sparklake.udfs.settings import Workspace as Workspace
from sparklake.udfs.swept_tables import put_tables

TASK_SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("task", pa.binary(), nullable=False),
    ]
)

_BYTES_PUT_AT_ONCE = 32 * 1024 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode


def encode_tasks(tasks: Iterable[Task]) -> pa.Table:
    """Return tasks in key order as a table of TASK_SCHEMA, one row each."""
    encoded = pa.array([_encode(task) for task in tasks], pa.binary())
    return pa.table([pa.array(range(len(encoded))), encoded], schema=TASK_SCHEMA)


def decode_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[Task]:
    """Yield the tasks in batches of TASK_SCHEMA."""
    for batch in batches:
        for encoded in batch.column("task"):
            yield _decode(encoded.as_py())


@dataclass(slots=True)
class RangeSink:
    """A buffer of the ranges that a task writes, which puts many of them at once.

    With `withheld`, nothing is put before `put` is called. `versions` are those of the Workspace.
    """

    store: ObjectStore
    range_records: int
    compress: bool
    withheld: bool = False
    versions: tuple[MetaRangeId, ...] = ()
    _files: dict[str, bytes] = field(default_factory=dict)
    _bytes: int = 0

    def write(self, blocks: Blocks) -> tuple[WrittenRange, ...]:
        """Cut records in key order into ranges, and return the ranges."""
        return tuple(self.cut(blocks))

    def cut(self, blocks: Blocks) -> Iterator[WrittenRange]:
        """Cut records in key order into ranges, and yield each one when it is written."""
        for written, file in write_ranges(blocks, self.range_records, compress=self.compress):
            self._add(written.info, file)
            yield written

    def write_one(self, records: Block) -> RangeInfo:
        """Write the records of one range that is already cut."""
        info, file = make_range(records, compress=self.compress)
        self._add(info, file)
        return info

    def drop(self) -> None:
        """Discard the ranges that have not been put."""
        self._files, self._bytes = {}, 0

    def put(self) -> None:
        """Make the buffered ranges durable in the store, and empty the buffer.

        Ranges that exist already must name objects that can be used in place of ours.

        Raises:
            AddressTakenError: An existing range names an object that cannot be used.
            CollectionOpenError: A collection may be deleting a range, or an object that an
                existing range names.
            PurgeOpenError: A purge may be deleting such an object.
        """
        written = set(put_tables(self.store, self._files))
        adopted = {key: file for key, file in self._files.items() if key not in written}
        check_adopted(self.store, adopted, self.versions)
        self.drop()

    def _add(self, info: RangeInfo, file: bytes) -> None:
        self._files[table_key(info.id)] = file
        self._bytes += len(file)
        if self._bytes >= _BYTES_PUT_AT_ONCE and not self.withheld:
            self.put()


def open_sink(workspace: Workspace, *, withheld: bool = False) -> RangeSink:
    """Open the store of a workspace, and return a sink for one task."""
    return sink_into(workspace.open_store(), workspace, withheld=withheld)


def sink_into(store: ObjectStore, workspace: Workspace, *, withheld: bool = False) -> RangeSink:
    """Return the sink of a workspace whose store is open."""
    return RangeSink(
        store, workspace.range_records, workspace.compresses, withheld, workspace.versions
    )
