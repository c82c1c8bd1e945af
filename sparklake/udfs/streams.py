"""Opens the sides of a task's pieces as streams, each file once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sparklake.graveler.blocks import Block, restricted
from sparklake.graveler.keys import Interval
from sparklake.graveler.packing import TaskPiece
from sparklake.graveler.planning import Side
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.tables import read_ranges


class SideStream:
    """Is one side of several pieces in key order, read as a single stream.

    Opening tables costs more than reading a small one, so a task opens each side once.
    """

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = filter(None, blocks)
        self._held: Block = next(self._blocks, [])

    def within(self, interval: Interval) -> Iterator[Block]:
        """Yields the records of an interval; intervals must be asked for in ascending order."""
        while self._held:
            inside = restricted(self._held, interval)
            if inside:
                yield inside
            if interval.stop is not None and self._held[-1][0] >= interval.stop:
                return
            self._held = next(self._blocks, [])


def open_sides(store: ObjectStore, pieces: Sequence[TaskPiece], scratch: Path) -> list[SideStream]:
    """Returns a stream for each side of some pieces, which all have the same number of sides."""
    streams = zip(*(each.piece.sides for each in pieces), strict=True)
    hull = Interval(pieces[0].piece.interval.start, pieces[-1].piece.interval.stop)
    return [SideStream(_read(store, sides, scratch, hull)) for sides in streams]


def _read(
    store: ObjectStore, sides: Sequence[Side], scratch: Path, hull: Interval
) -> Iterator[Block]:
    # A side is ranges or rows, never both.
    rows = [row for side in sides for row in side.rows]
    if rows:
        yield rows
    ranges = tuple(dict.fromkeys(each for side in sides for each in side.ranges))
    yield from read_ranges(store, ranges, scratch, hull)
