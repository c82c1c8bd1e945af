"""Where two sides have moved apart from their base, as far as the ids of ranges tell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparklake.delta_log.names import LOG_FOLDER
from sparklake.graveler.keys import Interval, common, prefix_interval, successor
from sparklake.graveler.planning.segments import clusters, reach, windows
from sparklake.graveler.ranges import RangeInfo, Ranges


@dataclass(frozen=True, slots=True)
class MovedRanges:
    """Is the ranges that one side has and base has not, or the other way, and their hulls."""

    ranges: Sequence[RangeInfo]
    hulls: Sequence[Interval]

    @staticmethod
    def of(base: Ranges, side: Ranges) -> MovedRanges:
        """Returns what a side has moved."""
        apart = (each.sides for each in windows(base, side) if not each.alike)
        found = [cluster.sides for sides in apart for cluster in clusters(sides)]
        ranges = [each for sides in found for part in sides for each in part]
        return MovedRanges(ranges, list(map(reach, found)))

    def meets(self, interval: Interval) -> bool:
        """Tells whether it may have changed something in an interval."""
        at = bisect_right(self.hulls, interval.start, key=lambda each: each.start)
        near = self.hulls[max(0, at - 1) : at + 1]
        return any(not common(each, interval).is_empty for each in near)


@dataclass(frozen=True, slots=True)
class Moved:
    """Is what each of two sides has moved; no range is opened to know it."""

    source: MovedRanges
    dest: MovedRanges

    @staticmethod
    def of(base: Ranges, source: Ranges, dest: Ranges) -> Moved:
        """Returns what the sides have moved."""
        return Moved(MovedRanges.of(base, source), MovedRanges.of(base, dest))

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
                hull = Interval(each.min_key, successor(each.max_key))
                if not other.meets(hull):
                    folders = {*folders_of(each.min_key), *folders_of(each.max_key)}
                    yield from (
                        (each, log)
                        for folder in folders
                        if not common(hull, prefix_interval(log := folder + _LOG)).is_empty
                        and other.meets(prefix_interval(folder))
                    )


_LOG = LOG_FOLDER.encode()


def folders_of(key: bytes) -> Iterator[bytes]:
    """Yields the folders that a key is in, the root too."""
    at = key.rfind(b"/")
    while at >= 0:
        yield key[: at + 1]
        at = key.rfind(b"/", 0, at)
    yield b""
