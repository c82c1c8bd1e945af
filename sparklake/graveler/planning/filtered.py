"""Plans of verbs restricted to selected paths. Other keys are copied unread."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.keys import EVERYTHING
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.planning.plan import (
    CopiedPiece,
    OpenPiece,
    Piece,
    Plan,
    SideStream,
    kept_pieces,
    merge_piece,
    open_tails,
    opened_piece,
    part_of,
    plan_merge,
    rows_in,
    settle,
)
from sparklake.graveler.planning.segments import Segment, reach, segments_apart
from sparklake.graveler.ranges import Ranges, overlapping


def plan_filtered_merge(
    base: Ranges, source: Ranges, dest: Ranges, path_filter: PathFilter
) -> Plan:
    """Plan a merge of the selected keys. Other keys keep dest's value."""
    if path_filter.is_everything:
        return plan_merge(base, source, dest)
    segments = segments_apart(base, source, dest)
    pieces = (piece for segment in segments for piece in _merge_pieces(segment, path_filter))
    return Plan(tuple(pieces), open_tails(base, source, dest))


def plan_without(ranges: Ranges, path_filter: PathFilter) -> Plan:
    """Plan the removal of the selected keys."""
    tiles = path_filter.tiles(EVERYTHING)
    pieces = (
        piece
        for part, is_selected in tiles
        if not is_selected
        for piece in kept_pieces(ranges, part)
    )
    return Plan(tuple(pieces), open_tails(ranges))


def plan_restore(left: Ranges, right: Ranges, path_filter: PathFilter) -> Plan:
    """Plan to restore left's selected keys from right, as staged records."""
    inside = (overlapping(side, path_filter.hull) for side in (left, right))
    pieces: list[Piece] = []
    for segment in segments_apart(*inside):
        if segment.alike:
            continue
        before, after = segment.sides
        if not before and path_filter.holds(reach(segment.sides)):
            pieces.append(CopiedPiece(after, is_new=True))
        else:
            pieces.extend(_chosen_parts(opened_piece(segment), path_filter))
    return Plan(tuple(pieces), open_tails(right))


def filtered_plan(plan: Plan, path_filter: PathFilter) -> Plan:
    """Drop the copied pieces, and restrict the opened ones to the selected keys."""
    if path_filter.is_everything:
        return Plan(plan.stretches)
    parts = (part for piece in plan.stretches for part in _chosen_parts(piece, path_filter))
    return Plan(tuple(parts))


def filtered_side(side: SideStream, path_filter: PathFilter) -> SideStream:
    """Drop the ranges and rows of a side without selected keys."""
    if path_filter.is_everything:
        return side
    ranges = (each for part in path_filter.intervals for each in overlapping(side.ranges, part))
    rows = (row for part in path_filter.intervals for row in rows_in(side, part))
    return SideStream(tuple(dict.fromkeys(ranges)), tuple(rows))


def _merge_pieces(segment: Segment, path_filter: PathFilter) -> Iterator[Piece]:
    _, _, dest = segment.sides
    hull = reach(segment.sides)
    if settle(segment) in (KeyOutcome.SAME, KeyOutcome.TAKE_DEST) or not path_filter.parts(hull):
        yield CopiedPiece(dest)
    elif path_filter.holds(hull):
        yield merge_piece(segment)
    else:
        whole = opened_piece(segment)
        for part, is_selected in path_filter.tiles(segment.interval):
            if not is_selected:
                yield from kept_pieces(dest, part, sides_before=2)
            elif _is_filled(inside := part_of(whole, part)):
                yield inside


def _chosen_parts(piece: OpenPiece, path_filter: PathFilter) -> Iterator[OpenPiece]:
    for part in path_filter.parts(piece.interval):
        inside = piece if part == piece.interval else part_of(piece, part)
        if _is_filled(inside):
            yield inside


def _is_filled(piece: OpenPiece) -> bool:
    return any(side.ranges or side.rows for side in piece.sides)
