"""Opens the sides of a task's pieces as streams, each file once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge as merge_sorted
from pathlib import Path

from sparklake.graveler.keys import Interval
from sparklake.graveler.packing import TaskPiece
from sparklake.graveler.planning import Side
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.records import Record
from sparklake.graveler.tables import read_ranges


class SideStream:
    """Is one side of several pieces in key order, read as a single stream.

    Opening tables costs more than reading a small one, so a task opens each side once.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._held = next(records, None)

    def within(self, interval: Interval) -> Iterator[Record]:
        """Yields the records of an interval; intervals must be asked for in ascending order."""
        while self._held is not None and self._held[0] < interval.start:
            self._held = next(self._records, None)
        stop = interval.stop
        while self._held is not None and (stop is None or self._held[0] < stop):
            yield self._held
            self._held = next(self._records, None)


def open_sides(store: ObjectStore, pieces: Sequence[TaskPiece], scratch: Path) -> list[SideStream]:
    """Returns a stream for each side of some pieces, which all have the same number of sides."""
    streams = zip(*(each.piece.sides for each in pieces), strict=True)
    hull = Interval(pieces[0].piece.interval.start, pieces[-1].piece.interval.stop)
    return [SideStream(_read(store, sides, scratch, hull)) for sides in streams]


def _read(
    store: ObjectStore, sides: Sequence[Side], scratch: Path, hull: Interval
) -> Iterator[Record]:
    ranges = tuple(dict.fromkeys(each for side in sides for each in side.ranges))
    rows = [row for side in sides for row in side.rows]
    stored = read_ranges(store, ranges, scratch, hull)
    return merge_sorted(stored, rows) if rows else stored
