"""Task bodies writing ranges: commits, merges and staged runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow.compute as pc

from sparklake.errors import InvalidRowsError
from sparklake.graveler import kernels
from sparklake.graveler.algebra.changes import ChangeCounts, Conflict, ignore_changes
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.algebra.three_way_merge import Decide, merge
from sparklake.graveler.blocks.block import Block, Blocks
from sparklake.graveler.graph.virtual_base import disagreement
from sparklake.graveler.ids import CommitId
from sparklake.graveler.planning.change_summary import ChangedKeys
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.rows.merges import ConflictCountResult, ConflictResult, DeferredResult, KeptResult
from sparklake.rows.records import record_block
from sparklake.rows.results import (
    ChangesResult,
    KeysResult,
    PieceResult,
    TaskResult,
    encode_results,
)
from sparklake.rows.settings import Workspace
from sparklake.strategies.judging import Judge
from sparklake.strategies.resolution import Resolution
from sparklake.udfs import compiled_tasks
from sparklake.udfs.compiled_tasks import Applied, Merged
from sparklake.udfs.observed_changes import ObservedChanges
from sparklake.udfs.range_sink import RangeSink, emptied, open_sink
from sparklake.udfs.streams import open_sides, records_of, within_each
from sparklake.udfs.tasks import Batches, BatchStream, plan_tasks


def apply_body(
    workspace: Workspace, batches: Batches, path_filter: PathFilter = ALL
) -> BatchStream:
    """Write the matching keys of layers over a base. The sides are base, layers, newest first."""
    for task in plan_tasks(batches):
        with emptied(open_sink(workspace)) as sink:
            results, counts, changed = _applied(sink, task, path_filter)
            sink.put()
        yield encode_results([*results, ChangesResult(counts), *_keys(changed)], sink.replaced)


@kernels.defines(compiled_tasks.apply_task)
def _applied(sink: RangeSink, task: Task, path_filter: PathFilter) -> Applied:
    counts, changed = ChangeCounts(), ChangedKeys()
    base, *layers = open_sides(sink.store, task)
    matching = [records_of(each, path_filter) for each in layers]
    results = written_pieces(sink, task, apply(matching, base, counts, changed.observe))
    return Applied(results, counts, changed)


def merge_body(
    workspace: Workspace, resolution: Resolution, batches: Batches, path_filter: PathFilter = ALL
) -> BatchStream:
    """Write a three-way merge of the matching keys. Other keys keep dest's value.

    The sides are base, source, dest. A task with an unresolved conflict or a failing strategy
    writes nothing. Only the first conflicts are reported.
    """
    for task in plan_tasks(batches):
        judge = Judge(resolution, workspace.storage_namespace)
        observed = ObservedChanges(resolution)
        with emptied(open_sink(workspace, withheld=not resolution.settles_all)) as sink:
            decide = compiled_tasks.decided_once(judge.decide)
            pieces, changed = _merged(sink, task, path_filter, decide, observed)
            if not judge.unresolved:
                sink.put()
        counts = ConflictCountResult(
            judge.conflicts,
            judge.unresolved,
            tuple(sorted(observed.logs)),
            observed.added,
            tuple(observed.tables),
        )
        results: list[TaskResult] = [*pieces, *_keys(changed), counts]
        results += [*map(ConflictResult, judge.reported), *map(KeptResult, judge.kept_objects)]
        results += map(DeferredResult, judge.deferred)
        yield encode_results(results, sink.replaced)


@kernels.defines(compiled_tasks.merge_task)
def _merged(
    sink: RangeSink,
    task: Task,
    path_filter: PathFilter,
    decide: Decide,
    observed: ObservedChanges | None,
) -> Merged:
    changed = ChangedKeys()
    base, source, dest = open_sides(sink.store, task)
    before, after = records_of(base, path_filter), records_of(source, path_filter)
    observe = ignore_changes if observed is None else observed.observe
    blocks = merge(before, after, dest, decide, changed.observe, observe)
    return Merged(written_pieces(sink, task, blocks), changed)


def virtual_merge_body(workspace: Workspace, name: CommitId, batches: Batches) -> BatchStream:
    """Write the virtual merge `name`. A key changed by both sides becomes a disagreement."""

    def disagree(conflicts: Sequence[Conflict]) -> list[bytes | None]:
        return [disagreement(each.key, name) for each in conflicts]

    for task in plan_tasks(batches):
        with emptied(open_sink(workspace)) as sink:
            results = _merged(sink, task, ALL, disagree, None).pieces
            sink.put()
        yield encode_results(results, sink.replaced)


def run_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Write a run from rows of RECORD_SCHEMA in key order."""
    sink = open_sink(workspace)
    ranges = sink.write(_distinct(map(record_block, batches)))
    sink.put()
    yield encode_results([PieceResult(0, ranges)], sink.replaced)


def write_tasks(
    workspace: Workspace, batches: Batches, combine: Callable[[Sequence[Blocks]], Blocks]
) -> BatchStream:
    """Write one stream, combined from the sides of each task."""
    for task in plan_tasks(batches):
        sink = open_sink(workspace)
        results = written_pieces(sink, task, combine(open_sides(sink.store, task)))
        sink.put()
        yield encode_results(results, sink.replaced)


def written_pieces(sink: RangeSink, task: Task, blocks: Blocks) -> list[PieceResult]:
    """Write the records of a task as ranges. Every piece starts a new range."""
    return [
        PieceResult(each.position, sink.write(inside))
        for each, inside in within_each(blocks, task.pieces)
    ]


def _keys(changed: ChangedKeys) -> list[KeysResult]:
    if changed.keys is None:
        return [KeysResult(None)]
    return [KeysResult(tuple(changed.keys))] if changed.keys else []


def _distinct(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the non-empty blocks, and reject a repeated key."""
    last = None
    for block in blocks:
        if not len(block):
            continue
        keys = block.key_array()
        twice = keys[1:].filter(pc.equal(keys[1:], keys[:-1]))
        if len(twice) or block.first_key == last:
            key = twice[0].as_py() if len(twice) else last
            raise InvalidRowsError(
                f"{key!r} occurs twice in one table; stage each key once, or in two calls"
            )
        last = block.last_key
        yield block
