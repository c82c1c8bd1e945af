"""Where two sides have moved apart from their base, as far as the ids of ranges tell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparklake.graveler.keys import Interval, common, prefix_interval, successor
from sparklake.graveler.range_lists import Ranges
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.segments import windows
from sparklake.udfs.delta.names import LOG_FOLDER


@dataclass(frozen=True, slots=True)
class Side:
    """Is the ranges that one side has and base has not, or the other way, and their hulls."""

    ranges: Sequence[RangeInfo]
    hulls: Sequence[Interval]

    @staticmethod
    def of(base: Ranges, side: Ranges) -> Side:
        """Returns what a side has moved."""
        parts = (each.sides for each in windows(base, side) if not each.alike)
        ranges = [each for pair in parts for part in pair for each in part]
        return Side(ranges, _hulls(ranges))

    def meets(self, interval: Interval) -> bool:
        """Tells whether it may have changed something in an interval."""
        at = bisect_right(self.hulls, interval.start, key=lambda each: each.start)
        near = self.hulls[max(0, at - 1) : at + 1]
        return any(not common(each, interval).is_empty for each in near)


@dataclass(frozen=True, slots=True)
class Moved:
    """Is what each of two sides has moved; no range is opened to know it."""

    source: Side
    dest: Side

    @staticmethod
    def of(base: Ranges, source: Ranges, dest: Ranges) -> Moved:
        """Returns what the sides have moved."""
        return Moved(Side.of(base, source), Side.of(base, dest))

    def by_both(self, interval: Interval) -> bool:
        """Tells whether either side may have changed something in an interval."""
        return self.source.meets(interval) and self.dest.meets(interval)

    def places_of_logs(self) -> Iterator[tuple[RangeInfo, bytes]]:
        """Yields ranges that no task of a merge reads, and the folders of logs that may be there.

        Where one side alone has moved a range with a log, and the other one something else of the
        table, then the table leads out of that range: one of its edges is a key of the table.
        """
        for side, other in ((self.source, self.dest), (self.dest, self.source)):
            for each in side.ranges:
                hull = _hull(each)
                if not other.meets(hull):
                    folders = {*folders_of(each.min_key), *folders_of(each.max_key)}
                    yield from (
                        (each, log)
                        for folder in folders
                        if not common(hull, prefix_interval(log := folder + _LOG)).is_empty
                        and other.meets(prefix_interval(folder))
                    )


_LOG = LOG_FOLDER.encode()


def _hull(each: RangeInfo) -> Interval:
    return Interval(each.min_key, successor(each.max_key))


def _hulls(ranges: Sequence[RangeInfo]) -> list[Interval]:
    """Returns intervals in key order that hold ranges, those that overlap as one."""
    found: list[Interval] = []
    for each in sorted(map(_hull, ranges), key=lambda each: each.start):
        last = found[-1] if found else None
        if last is None or each.start >= _stop(last):
            found.append(each)
        else:
            found[-1] = Interval(last.start, max(_stop(last), _stop(each)))
    return found


def _stop(hull: Interval) -> bytes:
    return hull.stop or b""


def folders_of(key: bytes) -> Iterator[bytes]:
    """Yields the folders that a key is in, the root too."""
    at = key.rfind(b"/")
    while at >= 0:
        yield key[: at + 1]
        at = key.rfind(b"/", 0, at)
    yield b""
