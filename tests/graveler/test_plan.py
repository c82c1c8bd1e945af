"""Plans as values: copied and opened pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import EVERYTHING, Interval, prefix_interval, successor
from sparklake.graveler.planning.layers import plan_apply, plan_listing, plan_view
from sparklake.graveler.planning.packing import Task, TaskPiece, coalesced, pack_tasks
from sparklake.graveler.planning.plan import (
    CopiedPiece,
    OpenPiece,
    Plan,
    SideStream,
    plan_diff,
    plan_merge,
    plan_replace,
    plan_three_way_diff,
)
from sparklake.graveler.planning.segments import Segment, clusters, segments_apart, tiled
from sparklake.graveler.ranges import RangeInfo, overlapping, range_list
from sparklake.graveler.records import Record
from tests.support.cases import for_each
from tests.support.oracle import Contents, cut, file_id
from tests.support.trees import records_of

Ranges = tuple[RangeInfo, ...]


def span(name: str, keys: str, count: int = 10) -> RangeInfo:
    """Return a range by its id, and its first and last key as two letters."""
    return RangeInfo(RangeId(name), keys[0].encode(), keys[-1].encode(), count, count * 100)


def described(pairs: Contents, range_records: int = 3) -> Ranges:
    """Return the ranges of contents, without writing any."""
    return tuple(
        RangeInfo(RangeId(file_id(each)), each[0][0], each[-1][0], len(each), 10 * len(each))
        for each in cut(pairs, range_records)
    )


keys = st.integers(0, 60).map(lambda number: b"k%02d" % number)
contents = st.dictionaries(keys, st.sampled_from([b"A", b"B"]))
trees = contents.map(described)
bounds = st.none() | keys
intervals = st.builds(lambda start, stop: Interval(start or b"", stop), bounds, bounds)


# --- segments -------------------------------------------------------------------------------------


def segments(*sides: Ranges) -> Iterator[Segment]:
    return tiled(clusters(sides))


@given(st.lists(trees, min_size=1, max_size=4))
def test_segments_tile_the_key_space(sides: list[Ranges]) -> None:
    tiles = list(segments(*sides))
    if not any(sides):
        assert tiles == []
        return
    assert tiles[0].interval.start == b""
    assert tiles[-1].interval.stop is None
    assert all(one.interval.stop == other.interval.start for one, other in pairwise(tiles))
    for number, ranges in enumerate(sides):
        assert ranges == tuple(each for tile in tiles for each in tile.sides[number])
    for tile in tiles:
        for each in (each for side in tile.sides for each in side):
            assert each.min_key in tile.interval
            assert each.max_key in tile.interval


@given(st.lists(trees, min_size=1, max_size=4))
def test_segments_end_wherever_no_range_straddles(sides: list[Ranges]) -> None:
    ranges = [each for side in sides for each in side]
    ends = {
        successor(each.max_key)
        for each in ranges
        if not any(other.min_key <= each.max_key < other.max_key for other in ranges)
    }
    stops = [tile.interval.stop for tile in segments(*sides)]
    assert len(stops) == len(ends)
    assert {*stops[:-1]} == ends - {max(ends, default=b"")}


def test_a_gap_belongs_to_the_next_segment() -> None:
    """What is put between two ranges goes on where the first one ended."""
    one, other = span("1", "ac"), span("2", "fh")
    intervals = [each.interval for each in segments((one, other))]
    assert intervals == [Interval(b"", b"c\0"), Interval(b"c\0", None)]


@given(trees, intervals)
def test_overlapping_ranges_are_those_that_may_hold_keys(ranges: Ranges, within: Interval) -> None:
    stop = within.stop
    assert overlapping(ranges, within) == tuple(
        each
        for each in ranges
        if each.max_key >= within.start and (stop is None or each.min_key < stop)
    )


# --- merge ----------------------------------------------------------------------------------------

A, B, C = span("a", "ac"), span("b", "df"), span("c", "gi")
A2, A3, B2 = span("a2", "ac"), span("a3", "ab"), span("b2", "df")
C2, WIDE = span("c2", "gi"), span("w", "af")


def opened(start: bytes, stop: bytes | None, *sides: Ranges) -> OpenPiece:
    return OpenPiece(Interval(start, stop), tuple(map(SideStream, sides)))


@for_each(
    ("base", "source", "dest", "pieces"),
    [
        ((), (), (), ()),
        ((A,), (A,), (A,), (CopiedPiece((A,)),)),
        ((A,), (A,), (A2,), (CopiedPiece((A2,)),)),
        ((A,), (A2,), (A,), (CopiedPiece((A2,)),)),
        ((A,), (A2,), (A2,), (CopiedPiece((A2,)),)),
        ((A,), (), (A,), (CopiedPiece(()),)),
        ((A,), (A,), (), (CopiedPiece(()),)),
        ((A,), (), (), (CopiedPiece(()),)),
        ((), (A,), (), (CopiedPiece((A,)),)),
        ((), (), (A,), (CopiedPiece((A,)),)),
        ((), (A,), (A,), (CopiedPiece((A,)),)),
        ((A,), (A2,), (A3,), (opened(b"", None, (A,), (A2,), (A3,)),)),
        ((A,), (), (A2,), (opened(b"", None, (A,), (), (A2,)),)),
        ((A,), (A2,), (), (opened(b"", None, (A,), (A2,), ()),)),
        ((), (A,), (A2,), (opened(b"", None, (), (A,), (A2,)),)),
        ((A, B), (A2, B), (A, B2), (CopiedPiece((A2,)), CopiedPiece((B2,)))),
        ((A, B), (WIDE,), (A, B), (CopiedPiece((WIDE,)),)),
        ((A, B), (WIDE,), (A, B2), (opened(b"", None, (A, B), (WIDE,), (A, B2)),)),
        (
            (A, B, C),
            (A2, B, C),
            (A3, B2, C),
            (opened(b"", b"c\0", (A,), (A2,), (A3,)), CopiedPiece((B2,)), CopiedPiece((C,))),
        ),
        ((WIDE, C), (WIDE,), (A, B, C), (CopiedPiece((A, B)), CopiedPiece(()))),
    ],
)
def test_a_merge_copies_ranges_settled_by_their_ids(
    base: Ranges, source: Ranges, dest: Ranges, pieces: tuple[CopiedPiece | OpenPiece, ...]
) -> None:
    assert plan_merge(base, source, dest).pieces == pieces


@given(trees, trees)
def test_a_merge_with_an_unchanged_side_opens_nothing(base: Ranges, other: Ranges) -> None:
    assert plan_merge(base, base, other).opened == ()
    assert plan_merge(base, base, other).copied == other
    assert plan_merge(base, other, base).opened == ()
    assert plan_merge(base, other, base).copied == other
    assert plan_merge(base, other, other).opened == ()
    assert plan_merge(base, other, other).copied == other


@given(trees, trees, trees)
def test_a_merge_and_a_three_way_diff_open_unsettled_segments(
    base: Ranges, source: Ranges, dest: Ranges
) -> None:
    merge, diff = plan_merge(base, source, dest), plan_three_way_diff(base, source, dest)
    assert {*merge.stretches} <= {*diff.stretches}
    assert diff.copied == ()
    for piece in diff.stretches:
        theirs, ours = piece.sides[1:]
        assert theirs != ours
        assert theirs != piece.sides[0]


@given(trees, trees, trees)
def test_tails_are_the_last_ranges_of_the_sides(base: Ranges, source: Ranges, dest: Ranges) -> None:
    plan = plan_merge(base, source, dest)
    sides = (base, source, dest)
    closed = {each.id for side in sides for each in side[:-1]}
    assert plan.tails == {each.id for side in sides for each in side} - closed


@given(trees, trees, trees)
def test_equal_ranges_are_settled_in_bulk(base: Ranges, source: Ranges, dest: Ranges) -> None:
    """As if each segment were looked at by itself."""
    for sides in ((base, source, dest), (base, source), (base, base, dest), (base, base)):
        apart = list(segments_apart(*map(range_list, sides)))
        for alike, group in groupby(segments(*sides), lambda each: len({*each.sides}) == 1):
            row = list(group)
            row = [together(row)] if alike else row
            head, apart = apart[: len(row)], apart[len(row) :]
            assert [(each.interval, infos(each.sides)) for each in head] == [
                (each.interval, infos(each.sides)) for each in row
            ]
            assert {each.alike for each in head} == {alike}
        assert apart == []


def together(group: list[Segment]) -> Segment:
    interval = Interval(group[0].interval.start, group[-1].interval.stop)
    sides = zip(*(each.sides for each in group), strict=True)
    return Segment(interval, tuple(tuple(chain.from_iterable(side)) for side in sides))


def infos(sides: Sequence[Sequence[RangeInfo]]) -> list[tuple[RangeInfo, ...]]:
    return [tuple(side) for side in sides]


def by_range(plan: Plan) -> tuple[CopiedPiece | OpenPiece, ...]:
    """Return the pieces of a plan, with one piece for each copied range."""
    return tuple(
        each
        for piece in plan.pieces
        for each in (
            [piece]
            if isinstance(piece, OpenPiece)
            else [CopiedPiece((each,), piece.is_new) for each in piece.ranges]
        )
    )


@given(trees, trees, trees)
def test_range_lists_are_planned_like_tuples(base: Ranges, source: Ranges, dest: Ranges) -> None:
    lists = [*map(range_list, (base, source, dest))]
    assert by_range(plan_merge(*lists)) == by_range(plan_merge(base, source, dest))
    assert plan_diff(*lists[:2]) == plan_diff(base, source)
    assert plan_three_way_diff(*lists) == plan_three_way_diff(base, source, dest)


# --- diff -----------------------------------------------------------------------------------------


@given(trees, intervals)
def test_a_diff_of_equal_trees_opens_nothing(tree: Ranges, within: Interval) -> None:
    assert plan_diff(tree, tree, within) == Plan(())
    assert plan_three_way_diff(tree, tree, tree) == Plan(())


@given(trees, trees, intervals)
def test_a_diff_opens_every_different_segment(
    left: Ranges, right: Ranges, within: Interval
) -> None:
    plan = plan_diff(left, right, within)
    both = {*left} & {*right}
    for piece in plan.stretches:
        assert piece.sides[0] != piece.sides[1]
        assert piece.interval.start >= within.start
        assert not piece.interval.is_empty
        if within.stop is not None:
            assert piece.interval.stop is not None
            assert piece.interval.stop <= within.stop
    apart = {*overlapping(left, within)} ^ {*overlapping(right, within)}
    assert apart - both <= {*plan.opened} | {
        each for each in apart if each.max_key not in within and each.min_key not in within
    }


def test_a_diff_opens_only_different_ranges() -> None:
    plan = plan_diff((A, B, C), (A, B2, C))
    assert plan.pieces == (opened(b"c\0", b"f\0", (B,), (B2,)),)
    assert plan.records == 20
    assert plan.bytes == 2000


# --- staged layers --------------------------------------------------------------------------------


def rows(*names: str) -> SideStream:
    return SideStream(rows=tuple(records_of({name.encode(): b"x" for name in names})))


def spots(*names: str) -> list[Interval]:
    return [Interval(name.encode(), successor(name.encode())) for name in names]


@pytest.mark.parametrize(
    ("staged", "touched_ranges", "untouched"),
    [
        ("b", (A,), (B, C)),
        ("a", (A,), (B, C)),
        ("c", (A,), (B, C)),
        ("0", (A,), (B, C)),
        ("cc", (B,), (A, C)),
        ("e", (B,), (A, C)),
        ("i", (C,), (A, B)),
        ("z", (C,), (A, B)),
    ],
)
def test_a_change_opens_its_range(staged: str, touched_ranges: Ranges, untouched: Ranges) -> None:
    plan = plan_apply((A, B, C), [rows(staged)], spots(staged))
    assert plan.opened == touched_ranges
    assert plan.copied == untouched
    assert plan.stretches[0].sides[1] == rows(staged)


def test_changes_are_grouped_by_their_ranges() -> None:
    names = ("b", "e", "ee", "z")
    plan = plan_apply((A, B, C), [rows(*names)], spots(*names))
    assert [piece.sides for piece in plan.stretches] == [
        (SideStream((A,)), rows("b")),
        (SideStream((B,)), rows("e", "ee")),
        (SideStream((C,)), rows("z")),
    ]


def test_a_run_is_opened_in_each_overlapping_segment() -> None:
    run = span("r", "bh")
    plan = plan_apply((A, B, C), [SideStream((run,))], [Interval(b"b", b"h\0")])
    assert [piece.sides[1] for piece in plan.stretches] == [SideStream((run,))] * 3
    assert plan.opened == (A, run, B, C)


def test_a_run_over_several_segments_counts_once() -> None:
    run = span("r", "bh", count=5)
    plan = plan_apply((A, B, C), [SideStream((run,)), rows("b", "e")], [Interval(b"b", b"h\0")])
    committed, above, below = plan.streams
    assert (committed, above, below) == (SideStream((A, B, C)), SideStream((run,)), rows("b", "e"))
    assert plan.records == 30 + 5 + 2
    assert plan.bytes == 3500 + below.bytes
    assert below.bytes == sum(len(key) + len(stored) for key, stored in below.rows)
    assert Plan(()).streams == ()


def test_layers_over_an_empty_tree_are_one_piece() -> None:
    assert plan_apply((), [rows("a", "b")], spots("a", "b")).pieces == (
        OpenPiece(EVERYTHING, (SideStream(), rows("a", "b"))),
    )


def test_no_change_opens_nothing() -> None:
    assert plan_apply((A, B, C), [SideStream()], []) == plan_merge((A, B, C), (A, B, C), (A, B, C))
    assert plan_apply((), [], []).opened == ()


@given(trees, st.sets(keys, max_size=6), st.sets(keys, max_size=6))
def test_every_staged_record_is_in_the_piece_of_its_range(
    base: Ranges, upper: set[bytes], lower: set[bytes]
) -> None:
    layers = [
        SideStream(rows=tuple(records_of(dict.fromkeys(each, b"x")))) for each in (upper, lower)
    ]
    touched = [Interval(key, successor(key)) for key in sorted(upper | lower)]
    plan = plan_apply(base, layers, touched)
    for number, layer in enumerate(layers, 1):
        travelling = [row for piece in plan.stretches for row in piece.sides[number].rows]
        assert travelling == [*layer.rows]
    order = [
        each
        for piece in plan.pieces
        for each in (piece.ranges if isinstance(piece, CopiedPiece) else piece.sides[0].ranges)
    ]
    assert order == [*base]
    for piece in plan.stretches:
        staged_rows: list[Record] = [row for side in piece.sides[1:] for row in side.rows]
        assert staged_rows or not base
        assert all(key in piece.interval for key, _ in staged_rows)


@given(trees, trees, st.sets(keys, max_size=6), st.sets(keys, max_size=3))
def test_staged_layers_are_planned_like_a_scan_of_every_range(
    base: Ranges, run: Ranges, staged: set[bytes], touched_besides: set[bytes]
) -> None:
    layers = [SideStream(rows=tuple(records_of(dict.fromkeys(staged, b"x")))), SideStream(run)]
    touched = [Interval(key, successor(key)) for key in staged | touched_besides]
    touched += [Interval(each.min_key, successor(each.max_key)) for each in run]
    touched.sort(key=lambda each: each.start)
    expected = [
        OpenPiece(
            segment.interval, (SideStream(segment.sides[0]), *sides_in(layers, segment.interval))
        )
        if any(meet(segment.interval, spot) for spot in touched)
        else CopiedPiece(segment.sides[0])
        for segment in [*segments(base)] or [Segment(EVERYTHING, ((),))]
    ]
    listed = range_list(base)
    assert [*by_range(plan_view(listed, layers, touched))] == [
        each for each in expected if isinstance(each, OpenPiece) or each.ranges
    ]
    assert by_range(plan_apply(listed, layers, touched)) == by_range(
        plan_apply(base, layers, touched)
    )


def sides_in(sides: list[SideStream], interval: Interval) -> list[SideStream]:
    """Return the part of each side within an interval, by a scan of every record and range."""
    return [
        SideStream(
            tuple(
                each
                for each in side.ranges
                if meet(interval, Interval(each.min_key, successor(each.max_key)))
            ),
            tuple(row for row in side.rows if row[0] in interval),
        )
        for side in sides
    ]


def meet(one: Interval, other: Interval) -> bool:
    return (one.stop is None or other.start < one.stop) and (
        other.stop is None or one.start < other.stop
    )


@given(trees, st.sets(keys, max_size=6), intervals)
def test_a_listing_opens_its_interval(base: Ranges, staged: set[bytes], within: Interval) -> None:
    layer = SideStream(rows=tuple(records_of(dict.fromkeys(staged, b"x"))))
    plan = plan_listing(base, [layer], within)
    assert plan.copied == ()
    pieces = [piece.interval for piece in plan.stretches]
    assert all(one.stop == other.start for one, other in pairwise(pieces))
    if not within.is_empty:
        assert pieces[0].start == within.start
        assert pieces[-1].stop == within.stop
        assert {*plan.opened} >= {each for each in base if each.min_key in within}


# --- replacement ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "pieces"),
    [
        (EVERYTHING, (CopiedPiece((B2,)),)),
        (Interval(b"d", b"g"), (CopiedPiece((A,)), CopiedPiece((B2,)), CopiedPiece((C,)))),
        (Interval(b"c\0", b"f\0"), (CopiedPiece((A,)), CopiedPiece((B2,)), CopiedPiece((C,)))),
        (Interval(b"", b"d"), (CopiedPiece((B2,)), CopiedPiece((B, C)))),
        (Interval(b"g", None), (CopiedPiece((A, B)), CopiedPiece((B2,)))),
        (
            Interval(b"e", b"h"),
            (
                CopiedPiece((A,)),
                opened(b"d", b"e", (B,)),
                CopiedPiece((B2,)),
                opened(b"h", b"i\0", (C,)),
            ),
        ),
        (
            prefix_interval(b"e"),
            (
                CopiedPiece((A,)),
                opened(b"d", b"e", (B,)),
                CopiedPiece((B2,)),
                opened(b"f", b"f\0", (B,)),
                CopiedPiece((C,)),
            ),
        ),
    ],
)
def test_a_replacement_opens_ranges_across_its_bounds(
    within: Interval, pieces: tuple[CopiedPiece | OpenPiece, ...]
) -> None:
    plan = plan_replace((A, B, C), (B2,), within)
    assert plan.pieces == pieces
    assert plan.tails == {C.id, B2.id}


# --- tasks ----------------------------------------------------------------------------------------


@given(trees, trees, trees, st.sampled_from([1, 5, 20, 1000]))
def test_tasks_contain_every_opened_piece_in_order(
    base: Ranges, source: Ranges, dest: Ranges, task_records: int
) -> None:
    plan = plan_merge(base, source, dest)
    tasks = pack_tasks(plan, task_records)
    assert [(each.position, each.piece) for task in tasks for each in task.pieces] == [
        (at, piece) for at, piece in enumerate(plan.pieces) if isinstance(piece, OpenPiece)
    ]
    sizes = [[each.piece.records for each in task.pieces] for task in tasks]
    assert all(sum(size) <= task_records or len(size) == 1 for size in sizes)
    # No two neighbours would fit into one.
    assert all(sum(one) + other[0] > task_records for one, other in pairwise(sizes))


@given(trees, trees, trees, st.sampled_from([1, 5, 20, 1000]))
def test_coalescing_keeps_the_work(
    base: Ranges, source: Ranges, dest: Ranges, task_records: int
) -> None:
    plan = plan_merge(base, source, dest)
    joined = coalesced(plan, task_records)
    assert joined.opened == tuple(
        dict.fromkeys(
            each for piece in joined.stretches for side in piece.sides for each in side.ranges
        )
    )
    assert {*joined.opened} == {*plan.opened}
    assert joined.copied == plan.copied
    assert joined.tails == plan.tails
    assert joined.records == plan.records
    for side in range(3):
        assert [each for piece in joined.stretches for each in piece.sides[side].ranges] == [
            each for piece in plan.stretches for each in piece.sides[side].ranges
        ]
    for piece in joined.stretches:
        assert piece.records <= task_records or piece in plan.stretches


def test_a_run_across_joined_pieces_is_read_once() -> None:
    run = span("r", "bh")
    plan = plan_apply((A, B, C), [SideStream((run,))], [Interval(b"b", b"h\0")])
    joined = coalesced(plan, 1000)
    assert joined.pieces == (OpenPiece(EVERYTHING, (SideStream((A, B, C)), SideStream((run,)))),)
    assert pack_tasks(joined, 1) == [Task((TaskPiece(0, joined.stretches[0]),))]


def test_separate_pieces_are_not_joined() -> None:
    plan = plan_diff((A, B, C), (A2, B, C2))
    first, last = plan.stretches
    assert first.interval.stop != last.interval.start
    assert coalesced(plan, 1000) == plan
