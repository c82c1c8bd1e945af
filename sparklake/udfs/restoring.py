"""A body that writes staged records which make one tree of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparklake.graveler.algebra import ChangeCounts, Changes, diff
from sparklake.graveler.blocks.block import Block, Blocks, block_of_records
from sparklake.graveler.blocks.edit import edited
from sparklake.graveler.planning.path_filter import Choice
from sparklake.graveler.records import tombstone
from sparklake.udfs.results import ChangesResult, encode_results
from sparklake.udfs.streams import open_sides, records_of
from sparklake.udfs.tasks import Workspace, decode_tasks, open_sink
from sparklake.udfs.writing import written_pieces

if TYPE_CHECKING:
    import pyarrow as pa


def restore_body(
    workspace: Workspace, choice: Choice, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes what left needs to be as right is, of the chosen keys: sides are left, right."""
    for task in decode_tasks(batches):
        sink, counts = open_sink(workspace), ChangeCounts()
        left, right = (records_of(each, choice) for each in open_sides(sink.store, task.pieces))
        results = written_pieces(sink, task, _staged(left, right, counts))
        sink.put()
        yield encode_results([*results, ChangesResult(counts)])


def _staged(left: Blocks, right: Blocks, counts: ChangeCounts) -> Iterator[Block]:
    for changes in diff(left, right):
        counts.add(changes)
        yield _records(changes)


def _records(changes: Changes) -> Block:
    """Returns the records of the right side, and a tombstone wherever it has none."""
    gone = changes.left.where(~changes.right.present)
    removals = block_of_records([tombstone(key) for key in gone.keys().array().to_pylist()])
    there = changes.right.records()
    return edited(there, np.zeros(len(there), bool), removals)
