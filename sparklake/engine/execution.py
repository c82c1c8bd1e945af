"""The execution of plans: pack, run, stitch, write the metarange."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sparklake.engine.base import UNWATCHED, Body, Progress, Runner, Source, begin, range_count
from sparklake.errors import LostResultError
from sparklake.graveler.algebra.changes import ChangeCounts, Conflict
from sparklake.graveler.blocks.block import Blocks
from sparklake.graveler.planning.change_summary import ChangedKeys
from sparklake.graveler.planning.packing import coalesced, divided, pack_tasks
from sparklake.graveler.planning.plan import CopiedPiece, OpenPiece, Plan
from sparklake.graveler.planning.split import RangeRow, stitch
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo, RangeList, range_list, record_count
from sparklake.graveler.sstable.range_files import (
    WrittenRange,
    as_put,
    make_meta_range,
    read_ranges,
)
from sparklake.namespace.swept_tree_files import put_tree_files
from sparklake.rows import merges
from sparklake.rows.imports import MAX_FIRST, UpdateResult
from sparklake.rows.results import (
    CacheResult,
    ChangesResult,
    KeysResult,
    PieceResult,
    TaskResult,
    decode_results,
)
from sparklake.rows.settings import Workspace
from sparklake.stores.cache.counts import TALLY
from sparklake.strategies.judging import MAX_CONFLICTS_REPORTED, MAX_KEPT, too_many_kept
from sparklake.udfs.range_sink import open_sink
from sparklake.udfs.tasks import encode_tasks
from sparklake.udfs.write_ranges import run_body

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class PlanResult:
    """The combined results of a plan's tasks.

    `conflict_count` counts all conflicts, `left_count` the undecided ones. `conflicts` has the
    first undecided ones, `deferred` those that a merge of rows must resolve. `logs` are folders of
    Delta logs that may differ from dest's, `added` samples of the Parquet files added by the sides,
    `tables` those with data files that one side alone added or changed. `others`, `first_others`
    and `retained` are those of an import's UpdateResult.
    """

    pieces: list[RangeRow] = field(default_factory=list)
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0
    left_count: int = 0
    deferred: list[Conflict] = field(default_factory=list)
    kept_objects: list[merges.KeptObject] = field(default_factory=list)
    logs: set[bytes] = field(default_factory=set)
    added: merges.AddedFiles = field(default_factory=merges.AddedFiles)
    tables: set[bytes] = field(default_factory=set)
    others: int = 0
    first_others: list[str] = field(default_factory=list)
    retained: int = 0
    changed: ChangedKeys = field(default_factory=ChangedKeys)


def run_plan(
    runner: Runner,
    body: Body,
    plan: Plan,
    task_records: int | None = None,
    progress: Progress = UNWATCHED,
) -> PlanResult:
    """Run the opened pieces of a plan, and insert their ranges between the copied ones."""
    task_records = task_records or runner.task_records(plan.records)
    plan = cut_for_tasks(plan, task_records)
    tasks = encode_tasks(pack_tasks(plan, task_records))
    outcome = PlanResult(
        counts=ChangeCounts(added=record_count(plan.adopted), removed=plan.dropped)
    )
    answers: dict[int, PieceResult] = {}
    begin(progress, plan)
    for result in decode_results(runner.collect(body, tasks)):
        _take(result, outcome, answers)
        if isinstance(result, PieceResult):
            piece = plan.pieces[result.position]
            progress.advance(range_count(piece) if isinstance(piece, OpenPiece) else 0)
    for position, piece in enumerate(plan.pieces):
        if isinstance(piece, CopiedPiece):
            tail = piece.ranges[-1].id if piece.ranges else None
            outcome.pieces.append(RangeRow(piece.ranges, tail not in plan.tails))
        elif position in answers:
            outcome.pieces.append(row_of(answers[position].written))
        else:
            # Without the result, all records of the piece would be lost.
            raise LostResultError(
                f"nothing was published: the engine returned no result for piece {position} of "
                "the plan. Run the command again"
            )
    outcome.conflicts.sort(key=lambda conflict: conflict.key)
    outcome.deferred.sort(key=lambda conflict: conflict.key)
    outcome.kept_objects.sort()
    return outcome


def cut_for_tasks(plan: Plan, task_records: int) -> Plan:
    """Cut a plan into pieces, one per output stream of its tasks."""
    return divided(coalesced(plan, task_records), task_records)


def write_run(
    runner: Runner,
    workspace: Workspace,
    encode: Body,
    source: Source,
    body: Callable[[Workspace, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] = run_body,
) -> list[RangeRow]:
    """Write rows as the ranges of a run, in key order, without stitching."""
    batches = runner.sort_and_collect(encode, partial(body, workspace), source)
    results = decode_results(batches)
    return rows_in_order(each for each in results if isinstance(each, PieceResult))


def rows_in_order(pieces: Iterable[PieceResult]) -> list[RangeRow]:
    """Return ranges in key order, from tasks with disjoint intervals of keys."""
    rows = (row_of(each.written) for each in pieces)
    return sorted((row for row in rows if row.ranges), key=lambda row: row.ranges[0].min_key)


def stitched(store: ObjectStore, workspace: Workspace, pieces: Sequence[RangeRow]) -> RangeList:
    """Return the ranges of one tree from pieces in key order, durable in the store."""
    sink = open_sink(workspace, store)

    def read(each: RangeInfo) -> Blocks:
        return read_ranges(store, [each])

    ranges = stitch(pieces, workspace.range_records, read, sink.write_one)
    sink.put()
    if not sink.replaced:
        return ranges
    return range_list([as_put(each, sink.replaced) for each in ranges])


def finish(store: ObjectStore, workspace: Workspace, pieces: Sequence[RangeRow]) -> MetaRange:
    """Stitch pieces in key order into one tree, and write its metarange durably."""
    tree, files = make_meta_range(stitched(store, workspace, pieces))
    put_tree_files(store, files)
    return tree


def _take(result: TaskResult, outcome: PlanResult, answers: dict[int, PieceResult]) -> None:
    if isinstance(result, PieceResult):
        answers[result.position] = result
    elif isinstance(result, ChangesResult):
        outcome.counts.added += result.counts.added
        outcome.counts.removed += result.counts.removed
        outcome.counts.changed += result.counts.changed
    elif isinstance(result, KeysResult):
        outcome.changed.join(result.keys)
    elif isinstance(result, merges.ConflictCountResult):
        outcome.conflict_count += result.conflicts
        outcome.left_count += result.unresolved
        outcome.logs.update(result.logs)
        outcome.added.join(result.added_files)
        merges.add_tables(outcome.tables, result.tables)
    elif isinstance(result, UpdateResult):
        outcome.others += result.others
        outcome.first_others += result.first[: MAX_FIRST - len(outcome.first_others)]
        outcome.retained += result.retained
    elif isinstance(result, CacheResult):
        TALLY.note(result.process, result.counts)
    else:
        _take_object(result, outcome)


def _take_object(result: TaskResult, outcome: PlanResult) -> None:
    if isinstance(result, merges.ConflictResult):
        if len(outcome.conflicts) < MAX_CONFLICTS_REPORTED:
            outcome.conflicts.append(result.conflict)
    elif isinstance(result, merges.DeferredResult):
        outcome.deferred.append(result.conflict)
    elif isinstance(result, merges.KeptResult):
        if len(outcome.kept_objects) == MAX_KEPT:
            raise too_many_kept()
        outcome.kept_objects.append(result.addition)


def row_of(ranges: Sequence[WrittenRange]) -> RangeRow:
    """Return the ranges of one task. Only the last one may be open."""
    return RangeRow(tuple(each.info for each in ranges), not ranges or ranges[-1].closed)
