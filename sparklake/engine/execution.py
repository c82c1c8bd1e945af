"""Carries out a plan: pack, run, stitch, write the metarange. Nothing here moves a pointer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from sparklake.engine.base import Body, Runner, Source
from sparklake.errors import LostResultError
from sparklake.graveler.algebra import ChangeCounts, Conflict
from sparklake.graveler.blocks import Blocks
from sparklake.graveler.packing import coalesced, divided, pack
from sparklake.graveler.planning import Copied, Plan
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.stitching import stitch
from sparklake.graveler.tables import (
    WrittenRange,
    read_ranges,
    write_meta_range,
)
from sparklake.scratch import scratch_folder
from sparklake.udfs.results import (
    ConflictCountResult,
    PieceResult,
    Result,
    decode_results,
)
from sparklake.udfs.tasks import RangeSink, Workspace, encode_tasks
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
    plan = divided(coalesced(plan, task_records), task_records)
    tasks = encode_tasks(pack(plan, task_records))
    outcome = Outcome()
    answers: dict[int, PieceResult] = {}
    for result in decode_results(runner.collect(body, tasks)):
        _take(result, outcome, answers)
    for position, piece in enumerate(plan.pieces):
        if isinstance(piece, Copied):
            outcome.pieces.extend(_copied(piece.ranges, plan))
        else:
            outcome.pieces.extend(_answer(answers, position).written)
    outcome.conflicts.sort(key=lambda conflict: conflict.key)
    return outcome


def write_run(
    runner: Runner, workspace: Workspace, encode: Body, source: Source
) -> list[WrittenRange]:
    """Writes rows as the ranges of a run, in key order, not yet stitched."""
    batches = runner.sort_and_collect(encode, partial(run_body, workspace), source)
    results = decode_results(batches)
    pieces = (each.written for each in results if isinstance(each, PieceResult))
    return sorted(chain.from_iterable(pieces), key=lambda each: each.info.min_key)


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


def _take(result: Result, outcome: Outcome, answers: dict[int, PieceResult]) -> None:
    if isinstance(result, PieceResult):
        answers[result.position] = result
        outcome.counts.added += result.counts.added
        outcome.counts.removed += result.counts.removed
        outcome.counts.changed += result.counts.changed
    elif isinstance(result, ConflictCountResult):
        outcome.conflict_count += result.conflicts
    elif len(outcome.conflicts) < MAX_CONFLICTS_REPORTED:
        outcome.conflicts.append(result.conflict)


def _answer(answers: dict[int, PieceResult], position: int) -> PieceResult:
    """Returns a piece's result: without it, all the records of the piece would be gone."""
    if position not in answers:
        raise LostResultError(
            f"the engine returned no result for piece {position} of the plan; nothing was "
            "published, so run it again"
        )
    return answers[position]


def _copied(ranges: Iterable[RangeInfo], plan: Plan) -> Iterable[WrittenRange]:
    return (WrittenRange(each, each.id in plan.closed) for each in ranges)
