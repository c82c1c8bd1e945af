"""Segments of the key space, cut where no side has a straddling range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge as merge_sorted

import numpy as np

from sparklake.graveler.blocks.align import find_ids
from sparklake.graveler.buffers import Ids, Positions
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.ranges import RangeInfo, Ranges, record_ids


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval without straddling ranges, or several `alike` ones, with each side's ranges."""

    interval: Interval
    sides: tuple[Ranges, ...]
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """A slice of each side, between two keys without straddling ranges."""

    sides: tuple[Ranges, ...]
    alike: bool


def segments_apart(*sides: Ranges) -> Iterator[Segment]:
    """Yield the segments of sides, with consecutive equal ones joined.

    Their intervals tile the key space.
    """
    return tiled(
        cluster
        for window in windows(*sides)
        for cluster in ([window] if window.alike else clusters(window.sides))
    )


def windows(*sides: Ranges) -> Iterator[Window]:
    """Yield the longest runs common to all sides, and the parts between them."""
    common = _common([record_ids(side) for side in sides])
    done = np.zeros(len(sides), np.int64)
    for run in np.split(common, np.flatnonzero((np.diff(common, axis=0) != 1).any(axis=1)) + 1):
        if len(run):
            start, stop = run[0], run[-1] + 1
            if (start > done).any():
                yield Window(_parts(sides, done, start), alike=False)
            yield Window(_parts(sides, start, stop), alike=True)
            done = stop
    tail = _parts(sides, done, np.array([len(side) for side in sides]))
    if any(map(len, tail)):
        yield Window(tail, alike=False)


def changed_intervals(left: Ranges, right: Ranges, most: int) -> list[Interval]:
    """Cover all differences between two trees with at most `most` intervals."""
    common = _common([record_ids(left), record_ids(right)])
    edges = np.concatenate(([[-1, -1]], common, [[len(left), len(right)]]))
    gaps = np.flatnonzero((np.diff(edges, axis=0) != 1).any(axis=1))
    groups = np.array_split(gaps, most) if len(gaps) > most else gaps.reshape(-1, 1)
    return [
        reach(_parts((left, right), edges[group[0]] + 1, edges[group[-1] + 1])) for group in groups
    ]


def joined_evenly(intervals: Sequence[Interval], most: int) -> list[Interval]:
    """Cover ordered intervals with at most `most` intervals."""
    step = -(-len(intervals) // most) or 1
    return [
        Interval(intervals[at].start, intervals[min(at + step, len(intervals)) - 1].stop)
        for at in range(0, len(intervals), step)
    ]


def reach(sides: Sequence[Ranges]) -> Interval:
    """Return the smallest interval around all ranges."""
    filled = [side for side in sides if side]
    last = max(side[-1].max_key for side in filled)
    return Interval(min(side[0].min_key for side in filled), successor(last))


def _common(sides: Sequence[Ids]) -> Positions:
    """Return the positions of ranges common to all sides: a row per range, a column per side."""
    columns = [np.arange(len(sides[0]))]
    columns += [find_ids(other, sides[0]) for other in sides[1:]]
    table = np.stack(columns, axis=1)
    common: Positions = table[(table >= 0).all(axis=1)]
    return common


def _parts(sides: Sequence[Ranges], starts: Positions, stops: Positions) -> tuple[Ranges, ...]:
    bounds = zip(sides, starts.tolist(), stops.tolist(), strict=True)
    return tuple(side[start:stop] for side, start, stop in bounds)


def clusters(sides: Sequence[Ranges]) -> Iterator[Window]:
    """Yield the smallest groups without overlaps between each other."""
    cluster: tuple[list[RangeInfo], ...] = tuple([] for _ in sides)
    end = b""
    for min_key, side, each in merge_sorted(*map(_labelled, range(len(sides)), sides)):
        if min_key > end and any(cluster):
            yield Window(tuple(map(tuple, cluster)), alike=False)
            cluster = tuple([] for _ in sides)
        cluster[side].append(each)
        end = max(end, each.max_key)
    if any(cluster):
        yield Window(tuple(map(tuple, cluster)), alike=False)


def _labelled(side: int, ranges: Ranges) -> Iterator[tuple[bytes, int, RangeInfo]]:
    # A side's min keys ascend and differ, so RangeInfo itself is never compared.
    return ((each.min_key, side, each) for each in ranges)


def tiled(clusters: Iterable[Window]) -> Iterator[Segment]:
    """Yield clusters with intervals. Each interval starts at the end of the previous one."""
    start, previous = b"", None
    for each in clusters:
        if previous is not None:
            stop = successor(max(side[-1].max_key for side in previous.sides if side))
            yield Segment(Interval(start, stop), previous.sides, previous.alike)
            start = stop
        previous = each
    if previous is not None:
        yield Segment(Interval(start, None), previous.sides, previous.alike)
