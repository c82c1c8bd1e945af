"""List one level: the objects and folders directly under a prefix.

A folder is shown at its first object, and its other objects are skipped. The metarange is enough to
skip all ranges inside of one folder, without reading them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow.compute as pc

from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.blocks.align import restricted
from sparklake.graveler.blocks.block import Block, block_of_records, concatenated
from sparklake.graveler.blocks.columns import gather
from sparklake.graveler.buffers import mask_of
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import (
    Interval,
    key_path,
    key_prefix,
    prefix_end,
    prefix_interval,
    successor,
)
from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ranges import RangeInfo, Ranges, overlapping, position_reaching
from sparklake.graveler.sstable.range_files import read_together
from sparklake.rows.objects import ObjectInfo, object_batch, object_rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.lookup import OpenRanges
from sparklake.verbs.base.resolve import ResolvedRef, read_consistently
from sparklake.verbs.base.staging import StagedLayers

_MAX_AHEAD = 64
"""The maximum number of ranges read together. It starts with one and doubles."""


@dataclass(frozen=True, slots=True)
class Folder:
    """All objects below `path`, with a '/' at its end."""

    path: str


def list_folder(context: Context, ref: str, prefix: str) -> Iterator[ObjectInfo | Folder]:
    """Yield objects and folders directly under a prefix, in byte order of their paths."""

    def sides(resolved: ResolvedRef) -> tuple[Ranges, list[SideStream]]:
        base = resolved.tree(context).ranges
        return base, StagedLayers(context, key_prefix(prefix)).sides(resolved.layers)

    yield from list_level(context, *read_consistently(context, ref, sides), prefix)


def list_level(
    context: Context, base: Ranges, staged: Sequence[SideStream], prefix: str, pattern: str = ""
) -> Iterator[ObjectInfo | Folder]:
    """Yield one level, as `list_folder` does, of a tree under staged layers, newest first.

    A regular expression restricts the objects by name, and may leave some folders.
    """
    level = _Level(key_prefix(prefix), context.info.storage_namespace, pattern)
    committed = _RangeReader(context.open_ranges, base, level)
    layers = [
        _StagedRecords(block_of_records(side.rows))
        if side.rows
        else _RangeReader(context.open_ranges, side.ranges, level)
        for side in staged
    ]
    yield from _walk(level, committed, layers)


def _walk(
    level: _Level, base: _RangeReader, staged: Sequence[_StagedRecords | _RangeReader]
) -> Iterator[ObjectInfo | Folder]:
    """Yield the level by windows of keys with at most one range per side."""
    within = prefix_interval(level.prefix)
    start: bytes | None = within.start
    while start is not None:
        stops = (within.stop, *(side.stop(start) for side in (base, *staged)))
        window = Interval(start, min((stop for stop in stops if stop is not None), default=None))
        if window.is_empty:
            return
        changes = [side.within(window) for side in staged]
        is_changed = any(map(len, changes))
        # Without staged changes, the least key of a range exists. It need not be read.
        least = None if is_changed else base.least_key(window)
        folder = least and level.folder(least)
        if folder:
            yield Folder(key_path(folder))
            start = prefix_end(folder)
            continue
        block = base.within(window)
        if is_changed:
            block = concatenated(list(apply([[each] for each in changes], [block], ChangeCounts())))
        yield from level.shown(block)
        last = level.folder(block.last_key) if len(block) else None
        start = window.stop
        if start is not None and last is not None:
            start = max(start, prefix_end(last) or start)


@dataclass(frozen=True, slots=True)
class _Level:
    """The objects and folders directly under a prefix."""

    prefix: bytes
    storage_namespace: str
    pattern: str = ""

    def folder(self, key: bytes) -> bytes | None:
        """Return a key's folder on this level, or None for an object."""
        if not key.startswith(self.prefix):
            return None
        slash = key.find(b"/", len(self.prefix))
        return None if slash < 0 else key[: slash + 1]

    def shown(self, block: Block) -> Iterator[ObjectInfo | Folder]:
        """Yield the objects and folders of records under the prefix."""
        if not len(block):
            return
        keys, depth = block.keys, len(self.prefix)
        rests = gather(keys.data, keys.starts + depth, keys.lengths - depth)
        slashes = pc.find_substring(rests, "/").to_numpy()
        is_folder = slashes >= 0
        lengths = np.where(is_folder, slashes + 1, keys.lengths - depth)
        names = gather(keys.data, keys.starts + depth, lengths)
        is_new = mask_of(pc.not_equal(names[1:], names[:-1]))
        is_shown = np.concatenate(([True], is_new))
        if self.pattern:
            is_shown &= is_folder | mask_of(pc.match_substring_regex(names, self.pattern))
        first = np.flatnonzero(is_shown)
        objects = object_rows(
            object_batch(block.take(first[~is_folder[first]]), self.storage_namespace)
        )
        for name, each in zip(names.take(first).to_pylist(), is_folder[first], strict=True):
            yield Folder(key_path(self.prefix + name)) if each else next(objects)


class _StagedRecords:
    """A staged layer of few records, all in memory."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def stop(self, key: bytes) -> bytes | None:
        return None

    def within(self, window: Interval) -> Block:
        return restricted(self._block, window)


class _RangeReader:
    """A commit or a staged run, with ranges read on demand."""

    def __init__(self, opened: OpenRanges, ranges: Ranges, level: _Level) -> None:
        self._opened = opened
        self._ranges = overlapping(ranges, prefix_interval(level.prefix))
        self._level = level
        self._read: dict[RangeId, Block] = {}
        self._together = 1

    def stop(self, key: bytes) -> bytes | None:
        """Return the end of the range at or after a key."""
        at = position_reaching(self._ranges, key)
        return successor(self._ranges[at].max_key) if at < len(self._ranges) else None

    def least_key(self, window: Interval) -> bytes | None:
        """Return the smallest key in a window, or None if finding it requires reading a range."""
        at = position_reaching(self._ranges, window.start)
        key = self._ranges[at].min_key if at < len(self._ranges) else None
        return key if key is not None and key in window else None

    def within(self, window: Interval) -> Block:
        return concatenated(
            [restricted(self._block(each), window) for each in overlapping(self._ranges, window)]
        )

    def _block(self, info: RangeInfo) -> Block:
        if info.id not in self._read:
            group = next(read_together(islice(self._needed(info), self._together)))
            opened = self._opened.get_many(group)
            self._read = {each.id: one.block for each, one in zip(group, opened, strict=True)}
            self._together = min(2 * self._together, _MAX_AHEAD)
        return self._read[info.id]

    def _needed(self, info: RangeInfo) -> Iterator[RangeInfo]:
        """Yield a range and the later ranges needed to walk to the end."""
        yield info
        at = position_reaching(self._ranges, info.max_key) + 1
        while at < len(self._ranges):
            each = self._ranges[at]
            folder = self._level.folder(each.min_key)
            end = None if folder is None else prefix_end(folder)
            if end is not None and each.max_key < end:
                at = position_reaching(self._ranges, end)
            else:
                yield each
                at += 1
