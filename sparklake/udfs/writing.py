"""Bodies that write ranges: staged layers over a base, a merge, a run of staged records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidRecordError
from sparklake.graveler.algebra import (
    ChangeCounts,
    Conflict,
    Decide,
    apply,
    merge,
    take_side,
)
from sparklake.graveler.blocks import Block, Blocks, block_of
from sparklake.graveler.classification import Strategy
from sparklake.graveler.packing import Task
from sparklake.graveler.touched import ChangedKeys
from sparklake.udfs.results import (
    ChangesResult,
    ConflictCountResult,
    ConflictResult,
    KeysResult,
    PieceResult,
    encode_results,
)
from sparklake.udfs.streams import open_sides, within_each
from sparklake.udfs.tasks import RangeSink, Workspace, decode_tasks, open_sink

MAX_CONFLICTS_REPORTED = 10_000

RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("stored", pa.binary(), nullable=False),
    ]
)


def apply_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes staged layers over a base: sides are base, then layers, the newest first."""
    for task in decode_tasks(batches):
        sink, counts, changed = open_sink(workspace), ChangeCounts(), ChangedKeys()
        base, *layers = open_sides(sink.store, task.pieces)
        results = _written(sink, task, apply(layers, base, counts, changed.note))
        sink.put()
        yield encode_results([*results, ChangesResult(counts), *_keys(changed)])


def merge_body(
    workspace: Workspace, strategy: Strategy | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes a three-way merge: sides are base, source, dest.

    Without a strategy, a task that meets a conflict writes nothing and reports the first ones.
    """
    for task in decode_tasks(batches):
        judge, sink = _Judge(strategy), open_sink(workspace, withheld=strategy is None)
        changed = ChangedKeys()
        base, source, dest = open_sides(sink.store, task.pieces)
        results = _written(sink, task, merge(base, source, dest, judge.decide, changed.note))
        if strategy is not None or not judge.conflicts:
            sink.put()
        conflicts = map(ConflictResult, judge.reported)
        yield encode_results(
            [*results, *_keys(changed), ConflictCountResult(judge.conflicts), *conflicts]
        )


def run_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the ranges of a run from rows of RECORD_SCHEMA in key order."""
    sink = open_sink(workspace)
    written = sink.write(_distinct(map(record_block, batches)))
    sink.put()
    yield encode_results([PieceResult(0, written)])


def _written(sink: RangeSink, task: Task, blocks: Blocks) -> list[PieceResult]:
    """Writes the records of a task as ranges, which begin anew with each of its pieces."""
    return [
        PieceResult(each.position, sink.write(inside))
        for each, inside in within_each(blocks, task.pieces)
    ]


def _keys(changed: ChangedKeys) -> list[KeysResult]:
    """Returns the message of a task that has changed something."""
    if changed.keys is None:
        return [KeysResult(None)]
    return [KeysResult(tuple(changed.keys))] if changed.keys else []


def record_block(batch: pa.RecordBatch) -> Block:
    """Returns the block of a batch of RECORD_SCHEMA in key order."""
    keys, stored = (batch.column(name).cast(pa.binary()) for name in ("key", "stored"))
    return block_of(keys, stored)


@dataclass(slots=True)
class _Judge:
    """Decides conflicts by a strategy, or notes the first ones where there is none."""

    strategy: Strategy | None
    conflicts: int = 0
    reported: list[Conflict] = field(default_factory=list)
    _side: Decide = field(init=False)

    def __post_init__(self) -> None:
        self._side = take_side(self.strategy or Strategy.DEST_WINS)

    def decide(self, conflict: Conflict) -> bytes | None:
        self.conflicts += 1
        if self.strategy is None and len(self.reported) < MAX_CONFLICTS_REPORTED:
            self.reported.append(conflict)
        return self._side(conflict)


def _distinct(blocks: Iterable[Block]) -> Iterator[Block]:
    """Passes on blocks that are not empty; raises InvalidRecordError for a key that is repeated."""
    last = None
    for block in blocks:
        if not len(block):
            continue
        keys = block.key_array()
        twice = keys[1:].filter(pc.equal(keys[1:], keys[:-1]))
        if len(twice) or block.first_key == last:
            key = twice[0].as_py() if len(twice) else last
            raise InvalidRecordError(
                f"{key!r} is there twice in one table; stage each key once, or in two calls"
            )
        last = block.last_key
        yield block
