"""Packs the pieces of a plan into tasks of about equal work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.plan import Opened, Piece, Plan, joined, part_of


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """An opened piece and its place in its plan, by which its results are found again."""

    position: int
    piece: Opened


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work: pieces in key order."""

    pieces: tuple[TaskPiece, ...]


def pack(plan: Plan, task_records: int) -> list[Task]:
    """Return tasks of about `task_records` records to read; a single piece is never cut."""
    tasks: list[Task] = []
    held: list[TaskPiece] = []
    records = 0
    for position, piece in enumerate(plan.pieces):
        if not isinstance(piece, Opened):
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
    """Return a plan whose adjoining opened pieces are one stream, up to a number of records.

    A stream is cut as it goes, so there is nothing to stitch where its segments meet.
    """
    pieces: list[Piece] = []
    held: list[Opened] = []
    records = 0
    for piece in plan.pieces:
        fits = (
            held
            and isinstance(piece, Opened)
            and held[-1].interval.stop == piece.interval.start
            and records + piece.records <= task_records
        )
        if held and not fits:
            pieces.append(_joined(held))
            held, records = [], 0
        if isinstance(piece, Opened):
            held.append(piece)
            records += piece.records
        else:
            pieces.append(piece)
    if held:
        pieces.append(_joined(held))
    return replace(plan, pieces=tuple(pieces))


def divided(plan: Plan, task_records: int) -> Plan:
    """Return a plan whose opened pieces are about `task_records` long at most.

    They are cut where a range of some side ends. That need not be a range end of the result: what
    comes out is stitched, as it is between any two pieces.
    """
    pieces: list[Piece] = []
    for piece in plan.pieces:
        if isinstance(piece, Opened) and piece.records > task_records:
            pieces.extend(_parts(piece, task_records))
        else:
            pieces.append(piece)
    return replace(plan, pieces=tuple(pieces))


def _parts(piece: Opened, task_records: int) -> Iterator[Opened]:
    interval, records, left = piece.interval, 0, piece.records
    ends = sorted((each.max_key, each.count) for side in piece.sides for each in side.ranges)
    for max_key, count in ends:
        records, left = records + count, left - count
        cut = successor(max_key)
        if records >= task_records and left and cut > interval.start and cut in interval:
            yield part_of(piece, Interval(interval.start, cut))
            interval, records = Interval(cut, interval.stop), 0
    yield part_of(piece, interval)


def _joined(pieces: Sequence[Opened]) -> Opened:
    interval = Interval(pieces[0].interval.start, pieces[-1].interval.stop)
    streams = zip(*(piece.sides for piece in pieces), strict=True)
    return Opened(interval, tuple(map(joined, streams)))
