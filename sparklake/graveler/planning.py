"""Plans: which ranges a verb copies by id, and which it must open.

A plan is made on the driver from metaranges alone and is a value. The key space is cut wherever no
range of any side straddles the cut; a segment whose sides settle it by ids is never read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge as merge_sorted

from sparklake.graveler.classification import Outcome, classify
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import EVERYTHING, Interval, successor
from sparklake.graveler.ranges import RangeInfo, byte_count, overlapping, record_count
from sparklake.graveler.records import Record

Ranges = tuple[RangeInfo, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """Is one stream of a segment: ranges to read, or a few staged rows that travel along."""

    ranges: Ranges = ()
    rows: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Copied:
    """Is a piece of a plan whose result is known by ids."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Opened:
    """Is a piece of a plan that must be read: an interval of keys and the sides' streams in it."""

    interval: Interval
    sides: tuple[Side, ...]

    @property
    def records(self) -> int:
        """Returns the number of records to read, at most."""
        return sum(record_count(side.ranges) + len(side.rows) for side in self.sides)


@dataclass(frozen=True, slots=True)
class Plan:
    """Is what a verb will do, in key order. `closed` are ranges known to stop at a range end."""

    pieces: tuple[Copied | Opened, ...]
    closed: frozenset[RangeId] = frozenset()

    @property
    def opened(self) -> tuple[RangeInfo, ...]:
        """Returns the ranges to be read, each once."""
        sides = (side for piece in self.stretches for side in piece.sides)
        return tuple(dict.fromkeys(each for side in sides for each in side.ranges))

    @property
    def copied(self) -> tuple[RangeInfo, ...]:
        """Returns the ranges taken over by id."""
        return tuple(
            each for piece in self.pieces if isinstance(piece, Copied) for each in piece.ranges
        )

    @property
    def stretches(self) -> tuple[Opened, ...]:
        """Returns the pieces that must be read."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Opened))

    @property
    def records(self) -> int:
        """Returns the number of records to read, at most."""
        return sum(piece.records for piece in self.stretches)

    def restricted(self, within: Interval) -> Plan:
        """Returns a plan to read only the opened pieces, and only in an interval."""
        inside = (_restricted(piece, within) for piece in self.stretches)
        return Plan(tuple(piece for piece in inside if not piece.interval.is_empty))

    @property
    def bytes(self) -> int:
        """Returns the number of raw bytes to read."""
        return byte_count(self.opened)


@dataclass(frozen=True, slots=True)
class Segment:
    """Is an interval that no range straddles, with the ranges of each side in it."""

    interval: Interval
    sides: tuple[Ranges, ...]


def segments(*sides: Sequence[RangeInfo]) -> Iterator[Segment]:
    """Yields the segments of some sides; their intervals tile the key space."""
    held: tuple[list[RangeInfo], ...] = tuple([] for _ in sides)
    start, end = b"", b""
    for min_key, side, each in merge_sorted(*map(_labelled, range(len(sides)), sides)):
        if min_key > end and any(held):
            yield _segment(start, successor(end), held)
            start, held = successor(end), tuple([] for _ in sides)
        held[side].append(each)
        end = max(end, each.max_key)
    if any(held):
        yield _segment(start, None, held)


def _labelled(side: int, ranges: Sequence[RangeInfo]) -> Iterator[tuple[bytes, int, RangeInfo]]:
    # A side's min keys ascend and differ, so RangeInfo itself is never compared.
    return ((each.min_key, side, each) for each in ranges)


def _segment(start: bytes, stop: bytes | None, held: Sequence[Sequence[RangeInfo]]) -> Segment:
    return Segment(Interval(start, stop), tuple(map(tuple, held)))


# --- the verbs' plans -----------------------------------------------------------------------------


def plan_diff(
    left: Sequence[RangeInfo], right: Sequence[RangeInfo], within: Interval = EVERYTHING
) -> Plan:
    """Returns the plan of a two-way diff: nothing is copied, equal segments are left out."""
    opened = (
        Opened(segment.interval, tuple(map(Side, segment.sides)))
        for segment in segments(overlapping(left, within), overlapping(right, within))
        if _ids(segment.sides[0]) != _ids(segment.sides[1])
    )
    return Plan(tuple(opened)).restricted(within)


def plan_merge(
    base: Sequence[RangeInfo], source: Sequence[RangeInfo], dest: Sequence[RangeInfo]
) -> Plan:
    """Returns the plan of a three-way merge."""
    pieces = (_merge_piece(segment) for segment in segments(base, source, dest))
    return Plan(tuple(pieces), _closed(base, source, dest))


def plan_three_way_diff(
    base: Sequence[RangeInfo],
    source: Sequence[RangeInfo],
    dest: Sequence[RangeInfo],
    within: Interval = EVERYTHING,
) -> Plan:
    """Returns the plan of what a merge would change in dest: where source is not base's."""
    opened = (
        Opened(segment.interval, tuple(map(Side, segment.sides)))
        for segment in segments(*(overlapping(side, within) for side in (base, source, dest)))
        if _settle(segment) in (Outcome.TAKE_SOURCE, Outcome.CONFLICT)
    )
    return Plan(tuple(opened)).restricted(within)


def _settle(segment: Segment) -> Outcome:
    """Says what the rule of single keys says of a whole segment, by the ids of its ranges."""
    return classify(*map(_digest, segment.sides))


def _digest(ranges: Ranges) -> bytes | None:
    """Returns bytes that are equal for equal ranges; None for no range, as for no record."""
    return "".join(_ids(ranges)).encode() or None


def _merge_piece(segment: Segment) -> Copied | Opened:
    _, source, dest = segment.sides
    outcome = _settle(segment)
    if outcome is Outcome.CONFLICT:
        return Opened(segment.interval, tuple(map(Side, segment.sides)))
    return Copied(source if outcome is Outcome.TAKE_SOURCE else dest)


def plan_apply(
    base: Sequence[RangeInfo], layers: Sequence[Side], touched: Iterable[Interval]
) -> Plan:
    """Returns the plan of staged layers, newest first, over a base.

    Nothing is staged outside of the intervals `touched`, which are given by ascending start.
    """
    spots = iter(touched)
    spot = next(spots, None)
    reach: bytes | None = b""
    pieces: list[Copied | Opened] = []
    for segment in list(segments(base)) or [Segment(EVERYTHING, ((),))]:
        interval = segment.interval
        while spot is not None and (interval.stop is None or spot.start < interval.stop):
            reach = _later(reach, spot.stop)
            spot = next(spots, None)
        if reach is None or reach > interval.start:
            sides = (Side(segment.sides[0]), *(_side_in(layer, interval) for layer in layers))
            pieces.append(Opened(interval, sides))
        else:
            pieces.append(Copied(segment.sides[0]))
    return Plan(tuple(pieces), _closed(base))


def plan_listing(
    base: Sequence[RangeInfo], layers: Sequence[Side], within: Interval = EVERYTHING
) -> Plan:
    """Returns the plan of reading all records in an interval, staged layers over a base."""
    return plan_apply(base, layers, [within]).restricted(within)


def plan_replace(
    base: Sequence[RangeInfo], replacement: Sequence[RangeInfo], within: Interval
) -> Plan:
    """Returns the plan of a base whose records in an interval give way to other ranges.

    Only the base ranges that straddle a bound of the interval are read.
    """
    before, after = Interval(b"", within.start), Interval(within.stop or b"", None)
    pieces = [_restricted_copy(each, before) for each in overlapping(base, before)]
    pieces.append(Copied(tuple(replacement)))
    if within.stop is not None:
        pieces.extend(_restricted_copy(each, after) for each in overlapping(base, after))
    return Plan(tuple(pieces), _closed(base, replacement))


def _restricted_copy(each: RangeInfo, interval: Interval) -> Copied | Opened:
    if each.min_key in interval and each.max_key in interval:
        return Copied((each,))
    return Opened(interval, (Side((each,)),))


def part_of(piece: Opened, interval: Interval) -> Opened:
    """Returns the part of a piece that lies in an interval."""
    return Opened(interval, tuple(_side_in(side, interval) for side in piece.sides))


def _restricted(piece: Opened, within: Interval) -> Opened:
    """Returns a piece whose interval does not leave another."""
    start = max(piece.interval.start, within.start)
    stops = [stop for stop in (piece.interval.stop, within.stop) if stop is not None]
    return replace(piece, interval=Interval(start, min(stops, default=None)))


def _side_in(side: Side, interval: Interval) -> Side:
    first = bisect_left(side.rows, (interval.start,))
    last = len(side.rows) if interval.stop is None else bisect_left(side.rows, (interval.stop,))
    return Side(overlapping(side.ranges, interval), side.rows[first:last])


def _later(one: bytes | None, other: bytes | None) -> bytes | None:
    """Returns the later of two stops; None is the end of the key space."""
    return None if one is None or other is None else max(one, other)


def _ids(ranges: Ranges) -> tuple[RangeId, ...]:
    return tuple(each.id for each in ranges)


def _closed(*sides: Sequence[RangeInfo]) -> frozenset[RangeId]:
    """Returns the ranges that are followed by another one: those stop at a range end."""
    return frozenset(each.id for side in sides for each in side[:-1])
