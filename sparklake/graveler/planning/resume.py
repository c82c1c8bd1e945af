"""Reuse of pieces from an earlier attempt, after a lost race.

The result of a piece depends only on its own sides. If two plans share consecutive pieces, both
therefore produce the same tree between the first and the last key of these pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.plan import (
    CopiedPiece,
    OpenPiece,
    Piece,
    Plan,
    SideStream,
    open_tails,
)
from sparklake.graveler.ranges import Ranges, overlapping


@dataclass(frozen=True, slots=True)
class ExecutedPlan:
    """A plan before its execution, and the resulting tree."""

    plan: Plan
    ranges: Ranges


def reusing(plan: Plan, executed: ExecutedPlan, *, layered: bool = False) -> Plan:
    """Copy the results of an executed plan into a new plan for the same verb.

    A piece stays opened if a range of the executed tree starts in it and ends in a changed piece.
    With `layered`, the sides after the first are staged layers. A layer without records in a piece
    is ignored there.
    """
    pieces: list[Piece] = []
    plan, other = _apart(plan), _apart(executed.plan)
    matched = zip(_distances(plan, other, layered=layered), plan.pieces, strict=True)
    for distance, run in groupby(matched, lambda each: each[0]):
        same = tuple(piece for _, piece in run)
        pieces.extend(same if distance is None else _taken_over(same, executed.ranges))
    return replace(plan, pieces=tuple(pieces), tails=plan.tails | open_tails(executed.ranges))


def _apart(plan: Plan) -> Plan:
    """Copy each range separately, to isolate the changed ranges."""
    pieces: list[Piece] = []
    for piece in plan.pieces:
        if isinstance(piece, CopiedPiece):
            pieces.extend(CopiedPiece((each,), piece.is_new) for each in piece.ranges)
        else:
            pieces.append(piece)
    return replace(plan, pieces=tuple(pieces))


def _distances(plan: Plan, other: Plan, *, layered: bool) -> Iterator[int | None]:
    """Yield each piece's offset to an equal piece in another plan, or None."""
    hulls = map(_hull, other.pieces)
    places = {hull[0]: at for at, hull in enumerate(hulls) if hull is not None}
    distance = 0
    for at, piece in enumerate(plan.pieces):
        hull = _hull(piece)
        if hull is not None:
            distance = places.get(hull[0], at) - at
        is_there = 0 <= at + distance < len(other.pieces)
        if is_there and _are_same(piece, other.pieces[at + distance], layered=layered):
            yield distance
        else:
            yield None


def _are_same(one: Piece, other: Piece, *, layered: bool) -> bool:
    if isinstance(one, CopiedPiece) or isinstance(other, CopiedPiece):
        return one == other
    if _sides(one, layered=layered) != _sides(other, layered=layered):
        return False
    # The interval includes the gap before the first key, so it depends on the previous pieces.
    return one.interval == other.interval or (_is_contained(one) and _is_contained(other))


def _sides(piece: OpenPiece, *, layered: bool) -> tuple[SideStream, ...]:
    if not layered:
        return piece.sides
    base, *layers = piece.sides
    return (base, *(each for each in layers if each.ranges or each.rows))


def _is_contained(piece: OpenPiece) -> bool:
    ranges = (each for side in piece.sides for each in side.ranges)
    return all(each.min_key in piece.interval and each.max_key in piece.interval for each in ranges)


def _hull(piece: Piece) -> tuple[bytes, bytes] | None:
    """Return the key bounds of a piece's records, or None."""
    sides = (SideStream(tuple(piece.ranges)),) if isinstance(piece, CopiedPiece) else piece.sides
    firsts = [side.ranges[0].min_key for side in sides if side.ranges]
    firsts += [side.rows[0][0] for side in sides if side.rows]
    lasts = [side.ranges[-1].max_key for side in sides if side.ranges]
    lasts += [side.rows[-1][0] for side in sides if side.rows]
    if not firsts:
        return None
    start, stop = min(firsts), successor(max(lasts))
    if isinstance(piece, OpenPiece):
        start = max(start, piece.interval.start)
        stop = stop if piece.interval.stop is None else min(stop, piece.interval.stop)
    return start, stop


def _taken_over(pieces: Sequence[Piece], tree: Ranges) -> Iterator[Piece]:
    """Yield consecutive pieces; copy those not straddled by a range of the tree."""
    hulls = [(at, *hull) for at, hull in enumerate(map(_hull, pieces)) if hull is not None]
    starts = ((at, start) for at, start, _ in hulls if not _is_straddled(tree, start))
    stops = ((at, stop) for at, _, stop in reversed(hulls) if not _is_straddled(tree, stop))
    first, start = next(starts, (len(pieces), b""))
    last, stop = next(stops, (-1, b""))
    if any(isinstance(piece, OpenPiece) for piece in pieces[first : last + 1]):
        yield from pieces[:first]
        yield CopiedPiece(overlapping(tree, Interval(start, stop)))
        yield from pieces[last + 1 :]
    else:
        yield from pieces


def _is_straddled(tree: Ranges, key: bytes) -> bool:
    """Return whether a range starts before a key and ends at or after it."""
    reaching = overlapping(tree, Interval(key, successor(key)))
    return bool(reaching) and reaching[0].min_key < key
