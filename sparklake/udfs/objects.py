"""Task bodies listing, moving, copying and restoring objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparklake.errors import AlreadyExistsError
from sparklake.graveler import kernels
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import Block, Blocks, block_of_records
from sparklake.graveler.blocks.edit import edited, renamed, tombstones
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.packing import Task, TaskPiece
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.planning.plan import part_of
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import overlapping
from sparklake.graveler.records import tombstone
from sparklake.graveler.sstable.range_files import read_together
from sparklake.rows.objects import object_batch
from sparklake.rows.results import ChangesResult, PieceResult, encode_results
from sparklake.rows.settings import Workspace
from sparklake.udfs import compiled_tasks
from sparklake.udfs.range_sink import open_sink
from sparklake.udfs.streams import open_sides, records_of
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks, plan_tasks
from sparklake.udfs.write_ranges import written_pieces

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Transfer:
    """A share of a move or copy: the records, and existing records at their new keys.

    `position` and `removals` are the places of new ranges and tombstones in the run.
    """

    position: int
    source: Task
    existing: Task | None
    cut: int
    prefix: bytes
    removals: int | None


def transfer_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Write the ranges of a run. The tasks are Transfers."""
    for transfer in decode_tasks(batches, Transfer):
        yield _transferred(workspace, transfer)


def _transferred(workspace: Workspace, share: Transfer) -> pa.RecordBatch:
    sink = open_sink(workspace)
    removals: list[Block] = []

    def copies() -> Iterator[Block]:
        for block in _records(sink.store, share.source):
            if share.removals is not None:
                removals.append(tombstones(block))
            yield renamed(block, share.cut, share.prefix)

    blocks: Blocks = copies()
    if share.existing is not None:
        blocks = _unless_there(blocks, _records(sink.store, share.existing))
    results = [PieceResult(share.position, sink.write(blocks))]
    if share.removals is not None:
        results.append(PieceResult(share.removals, sink.write(removals)))
    sink.put()
    return encode_results(results, sink.replaced)


def _records(store: ObjectStore, task: Task) -> Blocks:
    base, *layers = open_sides(store, task)
    return apply(layers, base, ChangeCounts())


def _unless_there(blocks: Blocks, existing: Blocks) -> Iterator[Block]:
    for block, there in aligned(blocks, existing):
        if len(block) and len(there):
            _, is_taken = there.find(block.keys)
            if is_taken.any():
                key = block.keys[int(is_taken.argmax())]
                raise AlreadyExistsError(
                    f"the object {key.decode(errors='replace')!r} already exists, and possibly "
                    "others: choose another destination, or overwrite with --force"
                )
        if len(block):
            yield block


def restore_body(workspace: Workspace, path_filter: PathFilter, batches: Batches) -> BatchStream:
    """Write the changes from left to right of the matching keys. The sides are left, right."""
    for task in plan_tasks(batches):
        sink, counts = open_sink(workspace), ChangeCounts()
        left, right = (records_of(each, path_filter) for each in open_sides(sink.store, task))
        results = written_pieces(sink, task, _restored(left, right, counts))
        sink.put()
        yield encode_results([*results, ChangesResult(counts)], sink.replaced)


def _restored(left: Blocks, right: Blocks, counts: ChangeCounts) -> Iterator[Block]:
    """Yield the records of the right side, and tombstones for its missing keys."""
    for changes in diff(left, right):
        counts.add(changes)
        missing = changes.left.where(~changes.right.present).keys()
        removals = block_of_records([tombstone(key) for key in missing.array().to_pylist()])
        records = changes.right.records()
        yield edited(records, np.zeros(len(records), bool), removals)


def list_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Yield OBJECT_SCHEMA. The sides are base, then staged layers, the newest first."""
    store, namespace = workspace.open_store(), workspace.storage_namespace
    for task in plan_tasks(batches):
        for part in _parts(task):
            yield from _listed(store, part, namespace)


def _parts(task: Task) -> Iterator[Task]:
    """Cut a task after base ranges that are read together: its first rows do not wait for all."""
    whole = task.whole
    start, stop = whole.interval.start, whole.interval.stop
    groups = read_together(overlapping(whole.sides[0].ranges, whole.interval))
    cuts = [successor(group[-1].max_key) for group in groups]
    for cut in [*cuts[:-1], stop]:
        yield Task((TaskPiece(0, part_of(whole, Interval(start, cut))),))
        start = cut or b""


@kernels.defines(compiled_tasks.list_task)
def _listed(store: ObjectStore, task: Task, storage_namespace: str) -> BatchStream:
    base, *layers = open_sides(store, task)
    blocks = apply(layers, base, ChangeCounts())
    return (object_batch(block, storage_namespace) for block in blocks)
