"""Plans of staged layers over a base, for writing and for reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sparklake.graveler.keys import EVERYTHING, Interval, successor
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.graveler.planning.plan import (
    CopiedPiece,
    OpenPiece,
    Piece,
    Plan,
    SideStream,
    open_tails,
    rows_in,
    side_in,
)
from sparklake.graveler.planning.segments import Window, clusters, tiled
from sparklake.graveler.ranges import RangeInfo, Ranges, overlaps, position_reaching


def plan_apply(
    base: Ranges,
    layers: Sequence[SideStream],
    touched: Iterable[Interval],
    path_filter: PathFilter = ALL,
) -> Plan:
    """Plan the writing of staged layers, newest first, over a base.

    All staged keys are in the intervals `touched`, in order of ascending start. A layer's range is
    copied by id if nothing else overlaps it and it is selected completely.
    """
    pieces = _layered(base, _adopted(base, layers, path_filter), layers, list(touched))
    return Plan(tuple(pieces), open_tails(base, *(layer.ranges for layer in layers)))


def plan_view(base: Ranges, layers: Sequence[SideStream], touched: Iterable[Interval]) -> Plan:
    """Plan reading `touched` through layers, newest first. All their records are opened."""
    return Plan(tuple(_layered(base, (), layers, list(touched))), open_tails(base))


def plan_listing(base: Ranges, layers: Sequence[SideStream], within: Interval = EVERYTHING) -> Plan:
    """Plan reading an interval through staged layers over a base."""
    return plan_view(base, layers, [within]).restricted(within)


def _layered(
    base: Ranges, adopted: Ranges, layers: Sequence[SideStream], touched: Sequence[Interval]
) -> Iterator[Piece]:
    spots = iter(touched)
    spot = next(spots, None)
    reach: bytes | None = b""
    for interval, untouched in _cells(base, adopted, touched):
        while spot is not None and (interval.stop is None or spot.start < interval.stop):
            reach = None if reach is None or spot.stop is None else max(reach, spot.stop)
            spot = next(spots, None)
        if untouched.is_new or not (reach is None or reach > interval.start):
            yield untouched
            continue
        base_side = SideStream(tuple(untouched.ranges))
        yield OpenPiece(interval, (base_side, *(side_in(layer, interval) for layer in layers)))


def _cells(
    base: Ranges, adopted: Ranges, touched: Iterable[Interval]
) -> Iterator[tuple[Interval, CopiedPiece]]:
    """Yield tiles of the key space, each with its content without layers."""
    stop: bytes | None = b""
    for segment in tiled(_clusters_near(base, adopted, touched)):
        committed, new = segment.sides
        start, stop = segment.interval.start, segment.interval.stop
        if new:
            if start < new[0].min_key:
                yield Interval(start, new[0].min_key), CopiedPiece(())
            start, stop = new[0].min_key, successor(new[-1].max_key)
        yield Interval(start, stop), CopiedPiece(committed or new, is_new=bool(new))
    if stop is not None:
        yield Interval(stop), CopiedPiece(())


def _clusters_near(base: Ranges, adopted: Ranges, touched: Iterable[Interval]) -> Iterator[Window]:
    """Yield adopted ranges, base ranges near `touched`, and runs of other base ranges."""
    done = 0
    for first, stop in _near(base, touched):
        if done < first:
            yield Window((base[done:first], ()), alike=True)
        last_key = base[stop - 1].max_key if stop < len(base) else None
        count = len(adopted) if last_key is None else position_reaching(adopted, last_key)
        yield from clusters((base[first:stop], adopted[:count]))
        adopted, done = adopted[count:], stop
    if done < len(base):
        yield Window((base[done:], ()), alike=True)


def _near(base: Ranges, touched: Iterable[Interval]) -> Iterator[tuple[int, int]]:
    """Yield the positions of possibly touched ranges, as (first, stop)."""
    first = stop = 0
    for spot in touched:
        start = max(0, min(position_reaching(base, spot.start), len(base) - 1))
        if start > stop:
            if first < stop:
                yield first, stop
            first = start
        end = len(base) if spot.stop is None else position_reaching(base, spot.stop) + 1
        stop = max(stop, min(end, len(base)))
    yield first, stop


def _adopted(
    base: Ranges, layers: Sequence[SideStream], path_filter: PathFilter
) -> list[RangeInfo]:
    """Return the unchanged ranges of layers in the result, in key order."""
    adopted = []
    for at, layer in enumerate(layers):
        others = (*layers[:at], *layers[at + 1 :])
        whole = (each for each in layer.ranges if not each.tombstones)
        adopted += [each for each in whole if _is_alone(each, base, others, path_filter)]
    return sorted(adopted, key=lambda each: each.min_key)


def _is_alone(
    each: RangeInfo, base: Ranges, others: Iterable[SideStream], path_filter: PathFilter
) -> bool:
    hull = Interval(each.min_key, successor(each.max_key))
    if overlaps(base, hull) or not path_filter.holds(hull):
        return False
    return not any(overlaps(other.ranges, hull) or rows_in(other, hull) for other in others)
