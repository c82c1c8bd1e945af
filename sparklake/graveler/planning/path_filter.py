"""Path filters: restrictions of verbs to selected keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import (
    EVERYTHING,
    Interval,
    common,
    existing_key,
    path_tuple,
    prefix_interval,
    successor,
)


@dataclass(frozen=True, slots=True)
class PathFilter:
    """The selected keys: intervals in ascending order, with gaps between them."""

    intervals: tuple[Interval, ...]

    @property
    def is_everything(self) -> bool:
        return self.intervals == (EVERYTHING,)

    @property
    def hull(self) -> Interval:
        return Interval(self.intervals[0].start, self.intervals[-1].stop)

    @property
    def prefix(self) -> bytes:
        """The common prefix of all selected keys."""
        start, stop = self.hull.start, self.hull.stop or b""
        shared = 0
        while start[shared : shared + 1] == stop[shared : shared + 1] != b"":
            shared += 1
        return start[:shared]

    def __contains__(self, key: bytes) -> bool:
        return bool(self.parts(Interval(key, successor(key))))

    def parts(self, interval: Interval) -> tuple[Interval, ...]:
        """Return the selected parts of an interval."""
        first = bisect_right(self.intervals, interval.start, key=lambda each: each.start)
        parts = []
        for at in range(max(0, first - 1), len(self.intervals)):
            each = self.intervals[at]
            if interval.stop is not None and each.start >= interval.stop:
                break
            part = common(each, interval)
            if not part.is_empty:
                parts.append(part)
        return tuple(parts)

    def holds(self, interval: Interval) -> bool:
        return self.parts(interval) == (interval,)

    def tiles(self, interval: Interval) -> Iterator[tuple[Interval, bool]]:
        """Yield the parts of an interval in order, and whether each is selected."""
        start: bytes | None = interval.start
        for part in self.parts(interval):
            if start is not None and start < part.start:
                yield Interval(start, part.start), False
            yield part, True
            start = part.stop
        tail = None if start is None else Interval(start, interval.stop)
        if tail is not None and not tail.is_empty:
            yield tail, False


ALL = PathFilter((EVERYTHING,))

PATHS_NOUN = "the paths to select"  # The noun for a list of paths in errors.


def filter_for(paths: Sequence[str] | None) -> PathFilter:
    """Return the filter for objects and for prefixes ending in '/'. None selects everything."""
    if paths is None:
        return ALL
    keys = [existing_key(path) for path in path_tuple(paths, PATHS_NOUN)]
    if not keys:
        raise InvalidInputError(
            "the list of paths is empty: pass an object, or a prefix that ends with '/'"
        )
    return covering(map(_interval, sorted(keys)))


def _interval(key: bytes) -> Interval:
    return prefix_interval(key) if key.endswith(b"/") else Interval(key, successor(key))


def covering(intervals: Iterable[Interval]) -> PathFilter:
    """Return the filter for the union of intervals with ascending starts."""
    return PathFilter(tuple(_disjoint(intervals)))


def _disjoint(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Join adjoining and overlapping intervals of ascending starts."""
    last: Interval | None = None
    for each in intervals:
        if last is None:
            last = each
        elif last.stop is None or each.start <= last.stop:
            stops = (last.stop, each.stop)
            last = Interval(last.start, None if None in stops else max(filter(None, stops)))
        else:
            yield last
            last = each
    if last is not None:
        yield last


def first_paths(paths: Iterable[str]) -> str:
    """Format the first three paths for a message."""
    listed = list(paths)
    return ", ".join(map(repr, listed[:3])) + (", ..." if len(listed) > 3 else "")
