"""Staged changes as sides of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sparklake.engine.base import Body, Runner, Source
from sparklake.engine.execution import finish, write_run
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning import Side
from sparklake.graveler.ports import Layer, LayerKind
from sparklake.graveler.ranges import MetaRange, RangeInfo, overlapping
from sparklake.graveler.records import Record
from sparklake.graveler.tables import read_ranges
from sparklake.scratch import scratch_folder
from sparklake.udfs.objects import record_batch
from sparklake.verbs.context import Context

if TYPE_CHECKING:
    import pyarrow as pa

INLINE_ROWS = 10_000
"""Up to how many rows of a layer travel inside of a plan; more are written as a run first."""

_BATCH_ROWS = 8192


def staged_sides(context: Context, layers: Sequence[Layer], prefix: bytes = b"") -> list[Side]:
    """Returns staging layers as sides, in the order given."""
    return [_side(context, layer, prefix) for layer in layers]


def _side(context: Context, layer: Layer, prefix: bytes) -> Side:
    if layer.kind is LayerKind.RUN and layer.meta_range_id is not None:
        return Side(context.trees.get(layer.meta_range_id).ranges)
    rows = tuple(islice(context.refs.staging.rows(layer.id, prefix), INLINE_ROWS + 1))
    if len(rows) <= INLINE_ROWS:
        return Side(rows=rows)
    batches = _batches(context.refs.staging.rows(layer.id, prefix))
    return Side(write_meta_run(context, context.runners.choose(0), iter, batches).ranges)


def write_meta_run(context: Context, runner: Runner, encode: Body, rows: Source) -> MetaRange:
    """Writes rows as a run: ranges of staged records under a metarange."""
    pieces = write_run(runner, context.workspace, encode, rows)
    return finish(context.store, context.workspace, pieces)


def staged_intervals(
    context: Context, base: Sequence[RangeInfo], sides: Sequence[Side]
) -> list[Interval]:
    """Returns intervals, by ascending start, outside of which no side holds a record."""
    intervals = [each for side in sides for each in _intervals(context, base, side)]
    return sorted(intervals, key=lambda interval: interval.start)


def _intervals(context: Context, base: Sequence[RangeInfo], side: Side) -> Iterator[Interval]:
    yield from map(_point, (key for key, _ in side.rows))
    for each in side.ranges:
        hull = Interval(each.min_key, successor(each.max_key))
        # Many changes for each base range under them will touch them all. Few may touch few: their
        # keys are read, so that a commit opens no range without a change. At most 3 keys are read
        # for each range of the base.
        if each.count > 3 * len(overlapping(base, hull)):
            yield hull
        else:
            yield from map(_point, _keys(context, each))


def _keys(context: Context, each: RangeInfo) -> Iterator[bytes]:
    with scratch_folder() as scratch:
        for block in read_ranges(context.store, [each], scratch):
            yield from (key for key, _ in block)


def _point(key: bytes) -> Interval:
    return Interval(key, successor(key))


def _batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    stream = iter(records)
    while chunk := list(islice(stream, _BATCH_ROWS)):
        yield record_batch(chunk)
