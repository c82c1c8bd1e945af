"""Packing of a plan's pieces into tasks of about equal work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.plan import OpenPiece, Piece, Plan, joined_side, part_of


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """An opened piece, and its position in its plan, which identifies its results."""

    position: int
    piece: OpenPiece


@dataclass(frozen=True, slots=True)
class Task:
    pieces: tuple[TaskPiece, ...]


def pack_tasks(plan: Plan, task_records: int) -> list[Task]:
    """Return tasks of about `task_records` records each. A piece is never cut."""
    tasks: list[Task] = []
    held: list[TaskPiece] = []
    records = 0
    for position, piece in enumerate(plan.pieces):
        if not isinstance(piece, OpenPiece):
            continue
        if held and records + piece.records > task_records:
            tasks.append(Task(tuple(held)))
            held, records = [], 0
        held.append(TaskPiece(position, piece))
        records += piece.records
    if held:
        tasks.append(Task(tuple(held)))
    return tasks


def coalesced(plan: Plan, task_records: int) -> Plan:
    """Join adjoining opened pieces, up to a number of records, to save stitching."""
    pieces: list[Piece] = []
    held: list[OpenPiece] = []
    records = 0
    for piece in plan.pieces:
        fits = (
            held
            and isinstance(piece, OpenPiece)
            and held[-1].interval.stop == piece.interval.start
            and records + piece.records <= task_records
        )
        if held and not fits:
            pieces.append(_joined(held))
            held, records = [], 0
        if isinstance(piece, OpenPiece):
            held.append(piece)
            records += piece.records
        else:
            pieces.append(piece)
    if held:
        pieces.append(_joined(held))
    return replace(plan, pieces=tuple(pieces))


def divided(plan: Plan, task_records: int) -> Plan:
    """Cut opened pieces into parts of at most about `task_records` records.

    Pieces are cut where a range of some side ends. The result may have no range end there: the
    parts are stitched, as any two pieces are.
    """
    pieces: list[Piece] = []
    for piece in plan.pieces:
        if isinstance(piece, OpenPiece) and piece.records > task_records:
            pieces.extend(_parts(piece, task_records))
        else:
            pieces.append(piece)
    return replace(plan, pieces=tuple(pieces))


def _parts(piece: OpenPiece, task_records: int) -> Iterator[OpenPiece]:
    interval, records, left = piece.interval, 0, piece.records
    ends = sorted((each.max_key, each.count) for side in piece.sides for each in side.ranges)
    for max_key, count in ends:
        records, left = records + count, left - count
        cut = successor(max_key)
        if records >= task_records and left and cut > interval.start and cut in interval:
            yield part_of(piece, Interval(interval.start, cut))
            interval, records = Interval(cut, interval.stop), 0
    yield part_of(piece, interval)


def _joined(pieces: Sequence[OpenPiece]) -> OpenPiece:
    interval = Interval(pieces[0].interval.start, pieces[-1].interval.stop)
    streams = zip(*(piece.sides for piece in pieces), strict=True)
    return OpenPiece(interval, tuple(map(joined_side, streams)))
