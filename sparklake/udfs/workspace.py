"""The base of every task body: tasks, and the sink of its ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from sparklake.graveler.blocks.block import Block, Blocks
from sparklake.graveler.ids import MetaRangeId, RangeId, next_generation
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import WrittenRange, make_range, table_key, write_ranges
from sparklake.namespace.swept_tables import put_tables
from sparklake.rows.settings import Workspace as Workspace
from sparklake.udfs.adopted_ranges import find_dead

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
    `replaced` has the ids of ranges that were put as a later generation.
    """

    store: ObjectStore
    range_records: int
    compress: bool
    withheld: bool = False
    versions: tuple[MetaRangeId, ...] = ()
    replaced: dict[RangeId, RangeId] = field(default_factory=dict)
    _files: dict[RangeId, bytes] = field(default_factory=dict)
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

        Ranges that exist already must name objects that can be used in place of ours. A range that
        names deleted objects is left alone: its records are put as its next generation.

        Raises:
            AddressTakenError: An existing range names an object that cannot be used.
            CollectionOpenError: A collection may be deleting a range, or an object that an
                existing range names.
            PurgeOpenError: A purge may be deleting such an object.
        """
        files, firsts = self._files, {each: each for each in self._files}
        while files:
            keys = {table_key(each): each for each in files}
            written = put_tables(self.store, {key: files[each] for key, each in keys.items()})
            existing = {each: files[each] for key, each in keys.items() if key not in set(written)}
            dead = find_dead(self.store, existing, self.versions)
            firsts = {next_generation(each): firsts[each] for each in dead}
            files = {each: self._files[first] for each, first in firsts.items()}
            self.replaced.update((first, each) for each, first in firsts.items())
        self.drop()

    def _add(self, info: RangeInfo, file: bytes) -> None:
        self._files[info.id] = file
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
