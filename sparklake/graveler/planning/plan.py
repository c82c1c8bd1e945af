"""Plans: the ranges to copy by id, and the ranges to open."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sparklake.graveler.algebra.classify import KeyOutcome, classify
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import EVERYTHING, Interval, common, successor
from sparklake.graveler.planning.segments import Segment, segments_apart
from sparklake.graveler.ranges import (
    RangeInfo,
    Ranges,
    byte_count,
    overlapping,
    position_reaching,
    record_count,
)
from sparklake.graveler.records import Record, byte_size


@dataclass(frozen=True, slots=True)
class SideStream:
    """One stream of a segment: ranges to read, or a few staged rows shipped with the task."""

    ranges: tuple[RangeInfo, ...] = ()
    rows: tuple[Record, ...] = ()

    @property
    def records(self) -> int:
        return record_count(self.ranges) + len(self.rows)

    @property
    def bytes(self) -> int:
        return byte_count(self.ranges) + sum(map(byte_size, self.rows))


@dataclass(frozen=True, slots=True)
class CopiedPiece:
    """A piece copied by id. New ranges come from a staged layer.

    `dropped` is the number of removed records in its place.
    """

    ranges: Ranges
    is_new: bool = False
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class OpenPiece:
    """A piece to read: an interval and the sides' streams in it."""

    interval: Interval
    sides: tuple[SideStream, ...]

    @property
    def records(self) -> int:
        """The maximum number of records to read."""
        return sum(side.records for side in self.sides)


Piece = CopiedPiece | OpenPiece


@dataclass(frozen=True, slots=True)
class Plan:
    """The pieces of a verb's work, in key order.

    `tails` are ranges that may not stop at a range end.
    """

    pieces: tuple[Piece, ...]
    tails: frozenset[RangeId] = frozenset()

    @property
    def opened(self) -> tuple[RangeInfo, ...]:
        """The ranges to read, each once."""
        sides = (side for piece in self.stretches for side in piece.sides)
        return tuple(dict.fromkeys(each for side in sides for each in side.ranges))

    @property
    def copied(self) -> tuple[RangeInfo, ...]:
        return tuple(each for piece in self.stretches_copied for each in piece.ranges)

    @property
    def adopted(self) -> tuple[RangeInfo, ...]:
        """The copied ranges of staged layers. All their records are added."""
        copied = (piece for piece in self.stretches_copied if piece.is_new)
        return tuple(each for piece in copied for each in piece.ranges)

    @property
    def dropped(self) -> int:
        """The number of records removed unread."""
        return sum(piece.dropped for piece in self.stretches_copied)

    @property
    def stretches_copied(self) -> tuple[CopiedPiece, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, CopiedPiece))

    @property
    def stretches(self) -> tuple[OpenPiece, ...]:
        """The pieces to read."""
        return tuple(piece for piece in self.pieces if isinstance(piece, OpenPiece))

    @property
    def streams(self) -> tuple[SideStream, ...]:
        """One stream per side with all ranges to read, each range once."""
        return tuple(map(joined_side, zip(*(piece.sides for piece in self.stretches), strict=True)))

    @property
    def records(self) -> int:
        return sum(side.records for side in self.streams)

    @property
    def bytes(self) -> int:
        return sum(side.bytes for side in self.streams)

    def restricted(self, within: Interval) -> Plan:
        """Drop the copied pieces, and restrict the opened ones to an interval."""
        cuts = ((piece, common(piece.interval, within)) for piece in self.stretches)
        inside = (
            piece if interval == piece.interval else part_of(piece, interval)
            for piece, interval in cuts
            if not interval.is_empty
        )
        return Plan(tuple(inside))


def plan_diff(left: Ranges, right: Ranges, within: Interval = EVERYTHING) -> Plan:
    """Plan a two-way diff. It copies nothing and omits equal segments."""
    opened = (
        opened_piece(segment)
        for segment in segments_apart(overlapping(left, within), overlapping(right, within))
        if not segment.alike
    )
    return Plan(tuple(opened)).restricted(within)


def plan_merge(base: Ranges, source: Ranges, dest: Ranges) -> Plan:
    pieces = map(merge_piece, segments_apart(base, source, dest))
    return Plan(tuple(pieces), open_tails(base, source, dest))


def plan_three_way_diff(
    base: Ranges, source: Ranges, dest: Ranges, within: Interval = EVERYTHING
) -> Plan:
    """Plan a diff of a merge's changes to dest: where source differs from base."""
    opened = (
        opened_piece(segment)
        for segment in segments_apart(*(overlapping(side, within) for side in (base, source, dest)))
        if settle(segment) in (KeyOutcome.TAKE_SOURCE, KeyOutcome.CONFLICT)
    )
    return Plan(tuple(opened)).restricted(within)


def opened_piece(segment: Segment) -> OpenPiece:
    return OpenPiece(segment.interval, tuple(SideStream(tuple(side)) for side in segment.sides))


def settle(segment: Segment) -> KeyOutcome:
    """Return the outcome of a segment from its range ids, with the same rule as for keys."""
    return KeyOutcome.SAME if segment.alike else classify(*map(_digest, segment.sides))


def _digest(ranges: Ranges) -> bytes | None:
    """Return a digest of ranges; None, an absent side, for no ranges."""
    return "".join(each.id for each in ranges).encode() or None


def merge_piece(segment: Segment) -> Piece:
    _, source, dest = segment.sides
    outcome = settle(segment)
    if outcome is KeyOutcome.CONFLICT:
        return opened_piece(segment)
    return CopiedPiece(source if outcome is KeyOutcome.TAKE_SOURCE else dest)


def plan_replace(base: Ranges, replacement: Ranges, within: Interval) -> Plan:
    """Plan to replace an interval of a base. Only straddling base ranges are read."""
    pieces = [*kept_pieces(base, Interval(b"", within.start)), CopiedPiece(replacement)]
    if within.stop is not None:
        pieces.extend(kept_pieces(base, Interval(within.stop, None)))
    return Plan(tuple(pieces), open_tails(base, replacement))


def plan_import(present: Ranges, imported: Ranges, within: Interval, replaces: bool) -> Plan:
    """Plan to import ranges into an interval: only the keys of the interval are in the result.

    An imported range is copied by id if it overlaps no existing range, or only an equal one.
    If the import replaces the interval, existing ranges of other keys are dropped unread.
    """
    segments = segments_apart(overlapping(present, within), imported)
    pieces = (_imported_piece(each, within, replaces) for each in segments)
    return Plan(tuple(pieces), open_tails(present, imported))


def _imported_piece(segment: Segment, within: Interval, replaces: bool) -> Piece:
    present, imported = segment.sides
    if segment.alike:
        return CopiedPiece(imported)
    if not present:
        return CopiedPiece(imported, is_new=True)
    if not imported and replaces and all(_is_in(each, within) for each in present):
        return CopiedPiece((), dropped=record_count(present))
    return part_of(opened_piece(segment), common(segment.interval, within))


def _is_in(each: RangeInfo, within: Interval) -> bool:
    return each.min_key in within and each.max_key in within


def kept_pieces(ranges: Ranges, part: Interval, sides_before: int = 0) -> Iterator[Piece]:
    """Yield the pieces of ranges in an interval. A range that straddles a bound is read.

    The ranges are the last side of their plan, after `sides_before` empty sides.
    """
    inside = overlapping(ranges, part)
    if not inside:
        return
    first = int(inside[0].min_key not in part)
    last = max(first, len(inside) - (inside[-1].max_key not in part))
    if first:
        stop = successor(inside[0].max_key)
        within = replace(part, stop=stop) if inside[0].max_key in part else part
        yield _cut(inside[0], within, sides_before)
    if inside[first:last]:
        yield CopiedPiece(inside[first:last])
    if inside[last:]:
        within = replace(part, start=max(part.start, inside[-1].min_key))
        yield _cut(inside[-1], within, sides_before)


def _cut(each: RangeInfo, within: Interval, sides_before: int) -> OpenPiece:
    return OpenPiece(within, (*[SideStream()] * sides_before, SideStream((each,))))


def joined_side(sides: Iterable[SideStream]) -> SideStream:
    """Join one side of several pieces, in key order, into a single stream."""
    listed = tuple(sides)
    # A staged run's range may overlap several pieces. It is read once.
    ranges = dict.fromkeys(each for side in listed for each in side.ranges)
    return SideStream(tuple(ranges), tuple(row for side in listed for row in side.rows))


def part_of(piece: OpenPiece, interval: Interval) -> OpenPiece:
    return OpenPiece(interval, tuple(side_in(side, interval) for side in piece.sides))


def side_in(side: SideStream, interval: Interval) -> SideStream:
    return SideStream(tuple(overlapping(side.ranges, interval)), rows_in(side, interval))


def rows_in(side: SideStream, interval: Interval) -> tuple[Record, ...]:
    first = bisect_left(side.rows, (interval.start,))
    last = len(side.rows) if interval.stop is None else bisect_left(side.rows, (interval.stop,))
    return side.rows[first:last]


def open_tails(*sides: Ranges) -> frozenset[RangeId]:
    """Return the ids of last ranges without a successor, which may lack a range end."""
    tails = [side[-1] for side in sides if side]
    return frozenset(each.id for each in tails if not any(_goes_on(side, each) for side in sides))


def _goes_on(ranges: Ranges, each: RangeInfo) -> bool:
    at = position_reaching(ranges, each.max_key)
    return at < len(ranges) - 1 and ranges[at].id == each.id
