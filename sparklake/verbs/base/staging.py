"""Staged changes as sides of a plan, and partial application of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from sparklake.engine.base import Sortable
from sparklake.graveler.chunks import chunked
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.filtered import filtered_side, plan_without
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.graveler.planning.plan import Plan, SideStream
from sparklake.graveler.ports import BranchState, Layer, LayerCut, LayerKind
from sparklake.graveler.ranges import (
    MetaRange,
    RangeInfo,
    Ranges,
    overlapping,
    overlaps,
    record_count,
)
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.verbs.base.context import Context

# Lazy imports: they take 20 ms, and listings need none of them.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sparklake.engine.base import Body, Runner, Source


def count_staged(context: Context, state: BranchState) -> int:
    """Return the number of staged records. A key counts once in each layer."""
    return sum(
        context.refs.staging.count(each.id)
        if each.meta_range_id is None
        else record_count(context.trees.get(each.meta_range_id).ranges)
        for each in state.layers
    )


INLINE_ROWS = 10_000
"""The maximum number of rows of a layer in a plan; more are first written as a run."""

_BATCH_ROWS = 8192

Planned = Callable[[Ranges, Sequence[SideStream], Iterable[Interval]], Plan]
"""A function that returns a plan for a base, layers, and their intervals."""


class StagedLayers:
    """A cached reader of staging layers for plans; with `dry`, it writes nothing."""

    def __init__(
        self, context: Context, *prefixes: bytes, dry: bool = False, path_filter: PathFilter = ALL
    ) -> None:
        self._context = context
        self._prefixes = prefixes or (path_filter.prefix,)
        self._choice = path_filter
        self._dry = dry
        self._side = cache(self._read_side)
        self._keys = cache(self._read_keys)

    def sides(self, layers: Sequence[Layer]) -> list[SideStream]:
        return [self._side(layer) for layer in layers]

    def plan(
        self, base: MetaRange, layers: Sequence[Layer], planned: Planned | None = None
    ) -> Plan:
        """Return the plan of layers over a base; it opens only touched ranges."""
        return self.plan_sides(base, self.sides(layers), planned)

    def plan_sides(
        self, base: MetaRange, sides: Sequence[SideStream], planned: Planned | None = None
    ) -> Plan:
        intervals = (each for side in sides for each in self._intervals(base.ranges, side))
        touched = sorted(intervals, key=lambda interval: interval.start)
        planned = planned or partial(plan_apply, path_filter=self._choice)
        return planned(base.ranges, sides, touched)

    def _read_side(self, layer: Layer) -> SideStream:
        if layer.kind is LayerKind.RUN and layer.meta_range_id is not None:
            run = self._context.trees.get(layer.meta_range_id)
            return filtered_side(SideStream(tuple(run.ranges)), self._choice)
        limit = None if self._dry else INLINE_ROWS + 1
        remaining = self._rows(layer)
        rows = tuple(islice(remaining, limit))
        if len(rows) != limit:
            return SideStream(rows=rows)
        runner = self._context.runner(0, "stage", "rows")
        run = write_meta_run(self._context, runner, iter, _batches(chain(rows, remaining)))
        return SideStream(tuple(run.ranges))

    def _rows(self, layer: Layer) -> Iterator[Record]:
        rows = self._context.refs.staging.rows(layer.id, *self._prefixes)
        return (
            rows if self._choice.is_everything else (row for row in rows if row[0] in self._choice)
        )

    def _intervals(self, base: Ranges, side: SideStream) -> Iterator[Interval]:
        yield from map(_point, (key for key, _ in side.rows))
        for each in side.ranges:
            hull = Interval(each.min_key, successor(each.max_key))
            # Many changes for each base range under them will touch them all. Few may touch few:
            # their keys are read, so that a commit opens no range without a change. At most 3 keys
            # are read for each range of the base.
            if each.count > 3 * len(overlapping(base, hull)):
                yield from self._choice.parts(hull)
            else:
                yield from map(_point, filter(self._choice.__contains__, self._keys(each)))

    def _read_keys(self, each: RangeInfo) -> list[bytes]:
        blocks = read_ranges(self._context.store, [each])
        return [key for block in blocks for key in block.key_array().to_pylist()]


def rows_by_path(rows: DataFrame) -> Source:
    """Return the rows of a DataFrame, sorted by path unless tasks read their objects."""
    return Sortable(rows, "path") if "checksum" in rows.columns else rows


def write_meta_run(context: Context, runner: Runner, encode: Body, rows: Source) -> MetaRange:
    from sparklake.engine.execution import finish, write_run

    pieces = write_run(runner, context.workspace, encode, rows)
    return finish(context.store, context.workspace, pieces)


def _point(key: bytes) -> Interval:
    return Interval(key, successor(key))


def _batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    from sparklake.rows.records import record_batch

    return map(record_batch, chunked(records, _BATCH_ROWS))


def cut_out(context: Context, state: BranchState, path_filter: PathFilter, verb: str) -> LayerCut:
    """Cut the given keys out of sealed layers, and rewrite runs that have other keys."""
    runs = {}
    for layer in state.layers:
        if layer.meta_range_id is not None:
            ranges = context.trees.get(layer.meta_range_id).ranges
            if any(overlaps(ranges, each) for each in path_filter.intervals):
                runs[layer.id] = _rest(context, state.name, ranges, path_filter, verb)
    return LayerCut(path_filter.intervals, runs)


def _rest(
    context: Context, branch: str, run: Ranges, path_filter: PathFilter, verb: str
) -> MetaRangeId:
    """Write the remainder of a run, reading only ranges beyond the keys."""
    from sparklake.engine.execution import finish, run_plan
    from sparklake.udfs.write_ranges import apply_body

    plan = plan_without(run, path_filter)
    runner = context.runner(plan.records, verb, branch)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    return finish(context.store, context.workspace, outcome.pieces).id
