"""Packing of pieces into tasks with about equal work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.plan import OpenPiece, Piece, Plan, joined_side, part_of


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """An opened piece and its position in the plan, which identifies its results."""

    position: int
    piece: OpenPiece


@dataclass(frozen=True, slots=True)
class Task:
    pieces: tuple[TaskPiece, ...]

    @property
    def whole(self) -> OpenPiece:
        """The pieces as one, with each range once."""
        return _joined([each.piece for each in self.pieces])


def pack_tasks(plan: Plan, task_records: int) -> list[Task]:
    """Return tasks of about `task_records` records each. A piece is never cut."""
    batches: list[list[TaskPiece]] = []
    records = 0
    for position, piece in enumerate(plan.pieces):
        if not isinstance(piece, OpenPiece):
            continue
        if not batches or records + piece.records > task_records:
            batches.append([])
            records = 0
        batches[-1].append(TaskPiece(position, piece))
        records += piece.records
    return [Task(tuple(batch)) for batch in batches]


def coalesced(plan: Plan, task_records: int) -> Plan:
    """Join adjoining opened pieces, up to a number of records, to save stitching."""
    pieces: list[Piece] = []
    batch: list[OpenPiece] = []
    records = 0
    for piece in plan.pieces:
        fits = (
            batch
            and isinstance(piece, OpenPiece)
            and batch[-1].interval.stop == piece.interval.start
            and records + piece.records <= task_records
        )
        if batch and not fits:
            pieces.append(_joined(batch))
            batch, records = [], 0
        if isinstance(piece, OpenPiece):
            batch.append(piece)
            records += piece.records
        else:
            pieces.append(piece)
    if batch:
        pieces.append(_joined(batch))
    return replace(plan, pieces=tuple(pieces))


def divided(plan: Plan, task_records: int) -> Plan:
    """Cut opened pieces into parts of at most about `task_records` records.

    Pieces are cut where a range of some side ends. The result may have no range end there: the
    parts are stitched like any two pieces.
    """
    pieces: list[Piece] = []
    for piece in plan.pieces:
        if isinstance(piece, OpenPiece) and piece.records > task_records:
            pieces.extend(_parts(piece, task_records))
        else:
            pieces.append(piece)
    return replace(plan, pieces=tuple(pieces))


def _parts(piece: OpenPiece, task_records: int) -> Iterator[OpenPiece]:
    interval, records, remaining = piece.interval, 0, piece.records
    ends = sorted((each.max_key, each.count) for side in piece.sides for each in side.ranges)
    for max_key, count in ends:
        records, remaining = records + count, remaining - count
        cut = successor(max_key)
        if records >= task_records and remaining and cut > interval.start and cut in interval:
            yield part_of(piece, Interval(interval.start, cut))
            interval, records = Interval(cut, interval.stop), 0
    yield part_of(piece, interval)


def _joined(pieces: Sequence[OpenPiece]) -> OpenPiece:
    interval = Interval(pieces[0].interval.start, pieces[-1].interval.stop)
    streams = zip(*(piece.sides for piece in pieces), strict=True)
    return OpenPiece(interval, tuple(map(joined_side, streams)))
