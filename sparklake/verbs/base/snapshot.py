"""Snapshots: a ref resolved once, for any number of lookups."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.graveler.algebra.changes import NO_ROW
from sparklake.graveler.arrow_batches import is_text
from sparklake.graveler.blocks.block import Block, block_of_records, concatenated
from sparklake.graveler.blocks.columns import keys_of
from sparklake.graveler.buffers import Positions
from sparklake.graveler.keys import existing_key
from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ranges import MetaRange, RangeInfo, Ranges, max_keys
from sparklake.graveler.records import is_tombstone
from sparklake.graveler.sstable.range_files import read_together
from sparklake.rows.objects import OBJECT_SCHEMA, ObjectInfo, object_batch, object_info
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.lookup import OpenRange, OpenRanges, PackedRange
from sparklake.verbs.base.resolve import ResolvedRef, read_consistently
from sparklake.verbs.base.staging import StagedLayers

LOOKUP_SCHEMA = pa.schema(
    [OBJECT_SCHEMA.field("path"), *(each.with_nullable(True) for each in list(OBJECT_SCHEMA)[1:])]
)
"""The rows of a lookup, one per path; all columns except `path` are null without an object."""

Paths: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray


def stat_object(context: Context, ref: str, path: str) -> ObjectInfo:
    return open_snapshot(context, ref, existing_key(path)).stat(path)


def kept_object(context: Context, ref: str, path: str) -> ObjectInfo:
    """Return one object of a ref, to read it. Raises ObjectNotFoundError, ExpiredError."""
    return open_snapshot(context, ref, existing_key(path), readable=True).stat(path)


def open_snapshot(
    context: Context, ref: str, prefix: bytes = b"", *, readable: bool = False
) -> Snapshot:
    """Return the current state of a ref; with `readable`, its objects may be read."""

    def read(resolved: ResolvedRef) -> Snapshot:
        if readable:
            resolved.check_kept(context)
        sides = StagedLayers(context, prefix).sides(resolved.layers)
        return snapshot_over(context, ref, resolved.tree(context), sides)

    return read_consistently(context, ref, read)


def snapshot_over(
    context: Context, what: str, tree: MetaRange, sides: Sequence[SideStream] = ()
) -> Snapshot:
    """Return a snapshot of a tree under staged layers, with or without a commit."""
    base = RangeLayer(context.open_ranges, tree.ranges)
    return Snapshot(context, what, (*(_layer(context, side) for side in sides), base))


@dataclass(frozen=True)
class Snapshot:
    """The content of a ref at one moment. Later changes do not affect it."""

    _context: Context
    _ref: str
    _layers: Sequence[RangeLayer | _MemoryLayer]

    def stat(self, path: str) -> ObjectInfo:
        """Return one object. Raises ObjectNotFoundError."""
        key = existing_key(path)
        stored = self._stored(key)
        if stored is None:
            raise ObjectNotFoundError(
                f"{self._ref!r} has no object {path!r}; `sparklake ls` shows its objects"
            )
        return object_info((key, stored), self._context.info.storage_namespace)

    def exists(self, path: str) -> bool:
        """Return whether an object exists at a path. Raises InvalidKeyError."""
        return self._stored(existing_key(path)) is not None

    def lookup(self, paths: Paths) -> pa.Table:
        """Return a row of LOOKUP_SCHEMA for each path, in the given order.

        For many millions of paths, join a DataFrame with `repository.objects(ref).to_df()`.
        """
        column = _texts(paths)
        order = pc.sort_indices(column)
        objects, rows = self._found(column.take(order).cast(pa.binary()).to_pylist())
        at = np.full(len(column), NO_ROW)
        at[order.to_numpy()[rows]] = np.arange(len(rows))
        table = objects.take(pa.array(at, mask=at == NO_ROW))
        return table.add_column(0, LOOKUP_SCHEMA.field("path"), column).cast(LOOKUP_SCHEMA)

    def _stored(self, key: bytes) -> bytes | None:
        for layer in self._layers:
            stored = layer.find(key)
            if stored is not None:
                return None if is_tombstone(stored) else stored
        return None

    def _found(self, keys: Sequence[bytes]) -> tuple[pa.Table, Positions]:
        """Return the objects of ascending keys without paths, and the keys' positions."""
        namespace = self._context.info.storage_namespace
        batches: list[pa.RecordBatch] = []
        rows: list[Positions] = [np.zeros(0, np.int64)]
        remaining = np.arange(len(keys))
        for layer in self._layers:
            decided = np.zeros(len(remaining), bool)
            for block, places in layer.found(keys):
                decided[places] = True
                there = ~block.tombstones
                live = block if there.all() else block.take(np.flatnonzero(there))
                batches.append(object_batch(live, namespace))
                rows.append(remaining[places[there]])
            remaining, keys = remaining[~decided], list(compress(keys, ~decided))
        table = pa.Table.from_batches(batches, OBJECT_SCHEMA).drop_columns("path")
        return table.combine_chunks(), np.concatenate(rows)


class _MemoryLayer:
    """A layer of few records, all in memory."""

    def __init__(self, block: Block) -> None:
        self._range = OpenRange(block)

    def find(self, key: bytes) -> bytes | None:
        return self._range.find(key)

    def found(self, keys: Sequence[bytes]) -> Iterator[tuple[Block, Positions]]:
        yield _found([self._range], keys, [slice(0, len(keys))])


class RangeLayer:
    """A tree, or a layer of ranges over one, with ranges opened on demand."""

    def __init__(self, opened: OpenRanges, ranges: Ranges) -> None:
        self._opened = opened
        self._max_keys = max_keys(ranges)
        # Single objects are looked up in the same ranges again and again.
        self._range = cache(ranges.__getitem__)

    def find(self, key: bytes) -> bytes | None:
        at = bisect_left(self._max_keys, key)
        if at == len(self._max_keys):
            return None
        each = self._range(at)
        return None if key < each.min_key else self._opened.find(each, key)

    def found(self, keys: Sequence[bytes]) -> Iterator[tuple[Block, Positions]]:
        """Yield the records of ascending keys, and the positions of the keys."""
        slices = dict(self._touched(keys))
        for group in read_together(slices):
            ranges = self._opened.for_many_keys(group)
            yield _found(ranges, keys, [slices[each] for each in group])

    def _touched(self, keys: Sequence[bytes]) -> Iterator[tuple[RangeInfo, slice]]:
        start = at = 0
        while start < len(keys):
            at = bisect_left(self._max_keys, keys[start], at)
            if at == len(self._max_keys):
                return
            each = self._range(at)
            start = bisect_left(keys, each.min_key, start)
            stop = bisect_right(keys, each.max_key, start)
            if start < stop:
                yield each, slice(start, stop)
            start = stop


def _layer(context: Context, side: SideStream) -> RangeLayer | _MemoryLayer:
    if side.rows:
        return _MemoryLayer(block_of_records(side.rows))
    return RangeLayer(context.open_ranges, side.ranges)


def _found(
    ranges: Sequence[OpenRange | PackedRange], keys: Sequence[bytes], parts: Sequence[slice]
) -> tuple[Block, Positions]:
    blocks, places = [], []
    for each, part in zip(ranges, parts, strict=True):
        block, there = each.find_many(keys_of(keys[part]))
        blocks.append(block)
        places.append(part.start + there)
    return concatenated(blocks), np.concatenate(places)


def _texts(paths: Paths) -> pa.StringArray:
    if isinstance(paths, str):
        raise InvalidInputError(f"{paths!r} is one path: pass a list of paths")
    try:
        column = paths if isinstance(paths, pa.Array | pa.ChunkedArray) else pa.array(paths)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (is_text(kind) or pa.types.is_null(kind)):
            raise InvalidInputError(f"paths to look up must be strings, not {column.type}")
        texts = column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, UnicodeEncodeError) as error:
        raise InvalidInputError(f"paths to look up must be strings: {error}") from error
    if texts.null_count:
        raise InvalidInputError("a path to look up is null: drop such rows first")
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
