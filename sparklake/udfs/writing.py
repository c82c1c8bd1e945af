"""Bodies that write ranges: staged layers over a base, a merge, a run of staged records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from sparklake.errors import InvalidRecordError
from sparklake.graveler.algebra import (
    ChangeCounts,
    Conflict,
    Decide,
    apply,
    merge,
    take_side,
)
from sparklake.graveler.blocks import Block
from sparklake.graveler.classification import Strategy
from sparklake.udfs.results import (
    ConflictCountResult,
    ConflictResult,
    PieceResult,
    Result,
    encode_results,
)
from sparklake.udfs.streams import open_sides
from sparklake.udfs.tasks import Workspace, decode_tasks, open_sink

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
        results: list[Result] = []
        with open_sink(workspace) as sink:
            base, *layers = open_sides(sink.store, task.pieces, sink.scratch)
            for each in task.pieces:
                interval, counts = each.piece.interval, ChangeCounts()
                staged = [layer.within(interval) for layer in layers]
                written = sink.write(apply(staged, base.within(interval), counts))
                results.append(PieceResult(each.position, written, counts))
            sink.put()
        yield encode_results(results)


def merge_body(
    workspace: Workspace, strategy: Strategy | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes a three-way merge: sides are base, source, dest.

    Without a strategy, a task that meets a conflict writes nothing and reports the first ones.
    """
    for task in decode_tasks(batches):
        judge, results = _Judge(strategy), list[Result]()
        with open_sink(workspace, withheld=strategy is None) as sink:
            sides = open_sides(sink.store, task.pieces, sink.scratch)
            for each in task.pieces:
                base, source, dest = (side.within(each.piece.interval) for side in sides)
                written = sink.write(merge(base, source, dest, judge.decide))
                results.append(PieceResult(each.position, written, ChangeCounts()))
            results.append(ConflictCountResult(judge.conflicts))
            results.extend(map(ConflictResult, judge.reported))
            if strategy is not None or not judge.conflicts:
                sink.put()
        yield encode_results(results)


def run_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the ranges of a run from rows of RECORD_SCHEMA in key order."""
    with open_sink(workspace) as sink:
        written = sink.write(_distinct(map(_block, batches)))
        sink.put()
    yield encode_results([PieceResult(0, written, ChangeCounts())])


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


def _block(batch: pa.RecordBatch) -> Block:
    keys, values = (batch.column(name).to_pylist() for name in ("key", "stored"))
    return list(zip(keys, values, strict=True))


def _distinct(blocks: Iterable[Block]) -> Iterator[Block]:
    """Passes on blocks that are not empty; raises InvalidRecordError for a key that is repeated."""
    last = None
    for block in blocks:
        keys = [last, *(key for key, _ in block)]
        if len(set(keys)) < len(keys):
            twice = next(one for one, other in pairwise(keys) if one == other)
            raise InvalidRecordError(
                f"{twice!r} is there twice in one table; stage each key once, or in two calls"
            )
        last = keys[-1]
        if block:
            yield block
