"""The sides of a task's pieces as streams. Each file is opened once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparklake.graveler.blocks.align import restricted
from sparklake.graveler.blocks.block import Block, Blocks, block_of_records, concatenated
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.packing import Task, TaskPiece
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.rows.settings import Workspace
from sparklake.udfs.tasks import Batches, plan_tasks


def open_sides(store: ObjectStore, task: Task) -> list[Iterator[Block]]:
    """Return one stream per side of a task's pieces.

    A task works on all its pieces at once: the cost per call hardly depends on the number of
    records. No side has a record between the pieces, unless `within_each` splits the result.
    """
    whole = task.whole
    return [_read(store, side, whole.interval) for side in whole.sides]


def open_tasks(workspace: Workspace, batches: Batches) -> Iterator[Sequence[Blocks]]:
    store = workspace.open_store()
    for task in plan_tasks(batches):
        yield open_sides(store, task)


def within_each(blocks: Blocks, pieces: Sequence[TaskPiece]) -> Iterator[tuple[TaskPiece, Blocks]]:
    """Yield each piece with its slice of the stream, to consume at once."""
    stream = filter(len, blocks)
    head = next(stream, None)

    def within(interval: Interval) -> Iterator[Block]:
        nonlocal head
        while head is not None:
            inside = restricted(head, interval)
            if len(inside):
                yield inside
            if interval.stop is not None and head.last_key >= interval.stop:
                return
            head = next(stream, None)

    for each in pieces:
        yield each, within(each.piece.interval)


def records_of(blocks: Blocks, path_filter: PathFilter) -> Blocks:
    """Return the records of the matching keys in a stream."""
    return blocks if path_filter.is_everything else _filtered(blocks, path_filter)


def _filtered(blocks: Blocks, path_filter: PathFilter) -> Iterator[Block]:
    for block in filter(len, blocks):
        parts = path_filter.parts(Interval(block.first_key, successor(block.last_key)))
        yield concatenated([restricted(block, part) for part in parts])


def _read(store: ObjectStore, side: SideStream, hull: Interval) -> Iterator[Block]:
    # A side has ranges or rows, never both.
    if side.rows:
        yield block_of_records(side.rows)
    yield from read_ranges(store, side.ranges, hull)
