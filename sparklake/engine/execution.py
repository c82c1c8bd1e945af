"""Carries out a plan: pack, run, stitch, write the metarange. Nothing here moves a pointer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sparklake.engine.base import Body, Rows, Runner
from sparklake.graveler.algebra import ChangeCounts, Conflict
from sparklake.graveler.blocks import Blocks
from sparklake.graveler.packing import coalesced, pack
from sparklake.graveler.planning import Copied, Plan
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.stitching import stitch
from sparklake.graveler.tables import (
    WrittenRange,
    read_ranges,
    write_meta_range,
)
from sparklake.udfs.results import (
    ConflictCountResult,
    CountsResult,
    RangeResult,
    Result,
    decode_results,
)
from sparklake.udfs.tasks import RangeSink, Workspace, encode_tasks, scratch_folder
from sparklake.udfs.writing import MAX_CONFLICTS_REPORTED, run_body

TASK_RECORDS = 250_000
"""How many records a task reads, about: a few seconds' work."""


@dataclass(slots=True)
class Outcome:
    """Is what the tasks of a plan made of it."""

    pieces: list[WrittenRange] = field(default_factory=list)
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0


def run_plan(runner: Runner, body: Body, plan: Plan, task_records: int = TASK_RECORDS) -> Outcome:
    """Runs the opened pieces of a plan and puts their ranges between the copied ones."""
    plan = coalesced(plan, task_records)
    tasks = encode_tasks(pack(plan, task_records))
    outcome = Outcome()
    written: dict[int, list[WrittenRange]] = {}
    for result in decode_results(runner.collect(body, tasks)):
        _take(result, outcome, written)
    for position, piece in enumerate(plan.pieces):
        if isinstance(piece, Copied):
            outcome.pieces.extend(_copied(piece.ranges, plan))
        else:
            outcome.pieces.extend(written.get(position, ()))
    outcome.conflicts.sort(key=lambda conflict: conflict.key)
    return outcome


def write_run(runner: Runner, workspace: Workspace, encode: Body, rows: Rows) -> list[WrittenRange]:
    """Writes rows as the ranges of a run, in key order, not yet stitched."""
    batches = runner.sort_and_collect(encode, partial(run_body, workspace), rows)
    results = decode_results(batches)
    written = [result.written for result in results if isinstance(result, RangeResult)]
    return sorted(written, key=lambda each: each.info.min_key)


def stitched(
    store: ObjectStore, workspace: Workspace, pieces: Sequence[WrittenRange]
) -> list[RangeInfo]:
    """Returns the ranges of one tree from pieces in key order, durable in the store."""
    with scratch_folder() as scratch:
        sink = RangeSink(store, workspace.range_records, scratch)

        def read(each: RangeInfo) -> Blocks:
            return read_ranges(store, [each], scratch)

        ranges = stitch(pieces, workspace.range_records, read, sink.write_one)
        sink.put()
        return ranges


def finish(store: ObjectStore, workspace: Workspace, pieces: Sequence[WrittenRange]) -> MetaRange:
    """Stitches pieces in key order into one tree and writes its metarange, durable on return."""
    ranges = stitched(store, workspace, pieces)
    with scratch_folder() as scratch:
        return write_meta_range(store, ranges, scratch)


def _take(result: Result, outcome: Outcome, written: dict[int, list[WrittenRange]]) -> None:
    if isinstance(result, RangeResult):
        written.setdefault(result.position, []).append(result.written)
    elif isinstance(result, CountsResult):
        outcome.counts.added += result.counts.added
        outcome.counts.removed += result.counts.removed
        outcome.counts.changed += result.counts.changed
    elif isinstance(result, ConflictCountResult):
        outcome.conflict_count += result.conflicts
    elif len(outcome.conflicts) < MAX_CONFLICTS_REPORTED:
        outcome.conflicts.append(result.conflict)


def _copied(ranges: Iterable[RangeInfo], plan: Plan) -> Iterable[WrittenRange]:
    return (WrittenRange(each, each.id in plan.closed) for each in ranges)
