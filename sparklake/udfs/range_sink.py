"""A sink for the ranges of a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sparklake.graveler.blocks.block import Block, Blocks
from sparklake.graveler.ids import MetaRangeId, RangeId, next_generation
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import (
    WrittenRange,
    make_range,
    tree_file_key,
    write_ranges,
)
from sparklake.namespace.swept_tree_files import put_tree_files
from sparklake.rows.settings import Workspace
from sparklake.udfs.adopted_ranges import find_dead

_BYTES_PUT_AT_ONCE = 32 * 1024 * 1024


@dataclass(slots=True)
class RangeSink:
    """A buffer of written ranges, put in batches. Some are in temporary files of their own.

    With `withheld`, only `put` writes. `versions` are those of the Workspace. `replaced` maps range
    ids to the later generations put instead.
    """

    store: ObjectStore
    range_records: int
    compress: bool
    withheld: bool = False
    versions: tuple[MetaRangeId, ...] = ()
    replaced: dict[RangeId, RangeId] = field(default_factory=dict)
    _files: dict[RangeId, bytes | Path] = field(default_factory=dict)
    _bytes: int = 0

    def write(self, blocks: Blocks) -> tuple[WrittenRange, ...]:
        """Split records in key order into ranges."""
        ranges = []
        for each, file in write_ranges(blocks, self.range_records, compress=self.compress):
            self.add(each.info, file)
            ranges.append(each)
        return tuple(ranges)

    def write_one(self, records: Block) -> RangeInfo:
        info, file = make_range(records, compress=self.compress)
        self.add(info, file)
        return info

    def drop(self) -> None:
        for each in self._files.values():
            if isinstance(each, Path):
                each.unlink(missing_ok=True)
        self._files, self._bytes = {}, 0

    def put(self) -> None:
        """Make the buffered ranges durable, and empty the buffer.

        `find_dead` verifies existing ranges. The records of a dead one are put as its next
        generation.
        """
        files, firsts = self._files, {each: each for each in self._files}
        while files:
            keys = {tree_file_key(each): each for each in files}
            new_keys = put_tree_files(self.store, {key: files[each] for key, each in keys.items()})
            existing = {
                each: _content(files[each])
                for key, each in keys.items()
                if key not in set(new_keys)
            }
            dead = find_dead(self.store, existing, self.versions)
            firsts = {next_generation(each): firsts[each] for each in dead}
            files = {each: self._files[first] for each, first in firsts.items()}
            self.replaced.update((first, each) for each, first in firsts.items())
        self.drop()

    def add(self, info: RangeInfo, file: bytes | Path) -> None:
        """Add a range, and own its temporary file, if it has one."""
        self._files[info.id] = file
        self._bytes += len(file) if isinstance(file, bytes) else 0
        if self._bytes >= _BYTES_PUT_AT_ONCE and not self.withheld:
            self.put()


def _content(file: bytes | Path) -> bytes:
    return file if isinstance(file, bytes) else file.read_bytes()


@contextmanager
def emptied(sink: RangeSink) -> Iterator[RangeSink]:
    """Drop ranges that are not put by the end of a `with` block."""
    try:
        yield sink
    finally:
        sink.drop()


def open_sink(
    workspace: Workspace, store: ObjectStore | None = None, *, withheld: bool = False
) -> RangeSink:
    return RangeSink(
        store=workspace.open_store() if store is None else store,
        range_records=workspace.range_records,
        compress=workspace.compresses,
        withheld=withheld,
        versions=workspace.versions,
    )
