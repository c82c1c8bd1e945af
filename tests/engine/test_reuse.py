"""Results of a lost attempt are reused: the tree is the same, and only moved ranges are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.counting import recorded_reads
from sparklake.engine.base import Body
from sparklake.engine.execution import run_plan
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.plan import (
    CopiedPiece,
    OpenPiece,
    Plan,
    SideStream,
    plan_merge,
    plan_replace,
)
from sparklake.graveler.planning.resume import ExecutedPlan, reusing
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import apply_body, merge_body
from tests.support import oracle
from tests.support.oracle import Changes, Contents
from tests.support.trees import Layer, Trees, open_trees, side_of, touched

KEYS = [b"%c%02d" % (letter, number) for letter in b"abcd" for number in range(20)]
IDENTITIES = (b"A", b"B", b"C")


@dataclass
class Attempting:
    """Carries out plans of one verb, one after the other, as the verbs do."""

    trees: Trees
    body: Body
    layered: bool = False
    task_records: int = 1_000_000
    previous: ExecutedPlan | None = None
    reads: list[str] = field(default_factory=list)

    def attempt(self, plan: Plan) -> MetaRange:
        rest = reusing(plan, self.previous, layered=self.layered) if self.previous else plan
        with recorded_reads() as self.reads:
            outcome = run_plan(self.trees.runner, self.body, rest, self.task_records)
            tree = self.trees.finish(outcome.pieces)
        self.previous = ExecutedPlan(plan, tree.ranges)
        return tree


def commits(trees: Trees, task_records: int = 1_000_000) -> Attempting:
    return Attempting(trees, partial(apply_body, trees.workspace), True, task_records)


def merges(trees: Trees, strategy: Strategy, task_records: int = 1_000_000) -> Attempting:
    body = partial(merge_body, trees.workspace, Resolution(strategy))
    return Attempting(trees, body, task_records=task_records)


def layers_plan(head: MetaRange, layers: Sequence[Layer]) -> Plan:
    return plan_apply(head.ranges, [side_of(each) for each in layers], touched(layers))


def merge_plan(base: MetaRange, source: MetaRange, dest: MetaRange) -> Plan:
    return plan_merge(base.ranges, source.ranges, dest.ranges)


# --- the same tree, whatever moves ----------------------------------------------------------------

keys = st.sampled_from(KEYS)
bases = st.builds(
    lambda dropped, chance: {key: chance.choice(IDENTITIES) for key in KEYS if key not in dropped},
    st.sets(keys, max_size=30),
    st.randoms(use_true_random=False),
)
changes = st.dictionaries(keys, st.sampled_from((*IDENTITIES, None)), max_size=6)
moves = st.lists(changes, min_size=1, max_size=3)
sizes = st.sampled_from((1, 2, 3, 4, 8))
task_sizes = st.sampled_from((1, 20, 1_000_000))


@pytest.mark.system
@given(
    bases,
    st.lists(st.tuples(changes, st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(changes, st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=3),
    sizes,
    task_sizes,
)
@settings(max_examples=60)
def test_commits_over_a_moving_head_match_the_model(
    pairs: Contents,
    staged: list[tuple[Changes, bool]],
    turns: list[tuple[Changes, int, int]],
    range_records: int,
    task_records: int,
) -> None:
    """Layers are added on top and removed at the bottom, as by concurrent puts and commits."""
    with open_trees(range_records) as trees:
        layers = [
            (trees.run(each) if as_run else trees.rows(each), each) for each, as_run in staged
        ]
        attempts = commits(trees, task_records)
        for change, first, last in [({}, 0, 4), *turns]:
            pairs = oracle.changed(pairs, change)
            visible = layers[first : first + last]
            after = pairs
            for _, layer in reversed(visible):
                after = oracle.changed(after, layer)
            plan = layers_plan(trees.write(pairs), [layer for layer, _ in visible])
            assert attempts.attempt(plan).id == oracle.meta_range_id(after, range_records)


@pytest.mark.system
@given(bases, changes, changes, moves, sizes, task_sizes, st.sampled_from(Strategy))
@settings(max_examples=60)
def test_merges_into_a_moving_dest_match_the_model(
    base: Contents,
    theirs: Changes,
    ours: Changes,
    turns: list[Changes],
    range_records: int,
    task_records: int,
    strategy: Strategy,
) -> None:
    source, dest = oracle.changed(base, theirs), oracle.changed(base, ours)
    with open_trees(range_records) as trees:
        attempts = merges(trees, strategy, task_records)
        fixed = trees.write(base), trees.write(source)
        for change in ({}, *turns):
            dest = oracle.changed(dest, change)
            tree = attempts.attempt(merge_plan(*fixed, trees.write(dest)))
            winner = source if strategy is Strategy.SOURCE_WINS else dest
            after, _ = oracle.merged(base, source, dest, winner)
            assert tree.id == oracle.meta_range_id(after, range_records)


@pytest.mark.system
@given(bases, bases, st.tuples(keys, keys), moves, sizes, task_sizes)
@settings(max_examples=40)
def test_imports_into_a_moving_head_match_the_model(
    pairs: Contents,
    others: Contents,
    ends: tuple[bytes, bytes],
    turns: list[Changes],
    range_records: int,
    task_records: int,
) -> None:
    within = Interval(min(ends), max(ends))
    inside = {key: each for key, each in others.items() if key in within}
    with open_trees(range_records) as trees:
        imported = trees.write(inside)
        attempts = Attempting(
            trees, partial(apply_body, trees.workspace), task_records=task_records
        )
        for change in ({}, *turns):
            pairs = oracle.changed(pairs, change)
            plan = plan_replace(trees.write(pairs).ranges, imported.ranges, within)
            outside = {key: each for key, each in pairs.items() if key not in within}
            expected = oracle.meta_range_id(outside | inside, range_records)
            assert attempts.attempt(plan).id == expected


# --- reads of a second attempt --------------------------------------------------------------------

SIZE = 8
PAIRS: Contents = {b"k%04d" % number: b"identity-%d" % (number % 3) for number in range(600)}


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(SIZE) as opened:
        yield opened


@pytest.fixture
def tree(trees: Trees) -> MetaRange:
    meta_range = trees.write(PAIRS)
    assert len(meta_range.ranges) > 50
    return meta_range


def spots(tree: MetaRange) -> list[RangeInfo]:
    """Return separate ranges with a first key that can change alone."""
    fitting = [
        here
        for before, here in pairwise(tree.ranges[:-1])
        if here.count >= 3 and before.count < 3 * SIZE and here.count < 3 * SIZE
    ]
    return fitting[::3]


def inner_change(*ranges: RangeInfo) -> Changes:
    """Return a change of the first record of each range, without a new range end."""
    return {each.min_key: other_identity(each.min_key) for each in ranges}


def other_identity(key: bytes) -> bytes:
    return oracle.identity_of(key, SIZE, end=False, other_than=PAIRS.values())


def moved(trees: Trees, head: MetaRange, change: Changes) -> MetaRange:
    after, _ = trees.commit(head, [trees.rows(change)])
    return after


def fresh(old: MetaRange, new: MetaRange) -> list[str]:
    """Return the range ids of a new tree that an old tree lacks."""
    old_ids = {each.id for each in old.ranges}
    return [each.id for each in new.ranges if each.id not in old_ids]


def test_a_concurrent_change_elsewhere_costs_no_read(trees: Trees, tree: MetaRange) -> None:
    mine, theirs = spots(tree)[4:14], spots(tree)[1]
    layer = trees.rows(inner_change(*mine))
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [layer]))
    assert sorted(attempts.reads) == sorted(each.id for each in mine)
    head = moved(trees, tree, inner_change(theirs))
    before = trees.names()
    after = attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == []
    assert trees.names() - before == {after.id}


def test_only_a_changed_range_is_read_again(trees: Trees, tree: MetaRange) -> None:
    mine = spots(tree)[4:14]
    layer = trees.rows(inner_change(*mine))
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [layer]))
    key = min(key for key in PAIRS if key > mine[5].min_key)
    head = moved(trees, tree, {key: other_identity(key)})
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == fresh(tree, head)
    assert len(attempts.reads) == 1


def test_a_moved_end_of_the_neighbour_costs_no_read(trees: Trees, tree: MetaRange) -> None:
    """The interval of a piece starts at the end of the range before it."""
    here = spots(tree)[5]
    at = tree.ranges.index(here)
    new = tree.ranges[at - 1].max_key + b"-new"
    attempts, layer = commits(trees), trees.rows(inner_change(here))
    attempts.attempt(layers_plan(tree, [layer]))
    head = moved(trees, tree, {new: oracle.identity_of(new, SIZE, end=True, other_than=())})
    assert (head.ranges[at].max_key, head.ranges[at + 1]) == (new, here)
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == []


def test_added_and_removed_layers_cost_no_read(trees: Trees, tree: MetaRange) -> None:
    """The winner commits the older layer; a writer puts a newer one on top."""
    one, two, three = (trees.rows(inner_change(each)) for each in spots(tree)[3:6])
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [two, one]))
    head, _ = trees.commit(tree, [one])
    attempts.attempt(layers_plan(head, [three, two]))
    assert attempts.reads == [spots(tree)[5].id]


def test_a_run_beside_rows_is_reused(trees: Trees, tree: MetaRange) -> None:
    mine = spots(tree)[4:14]
    run = trees.run(inner_change(*mine))
    plan = partial(plan_apply, layers=[side_of(run)], touched=points(mine))
    attempts = commits(trees)
    attempts.attempt(plan(tree.ranges))
    head = moved(trees, tree, inner_change(spots(tree)[1]))
    attempts.attempt(plan(head.ranges))
    assert attempts.reads == []


def points(ranges: Sequence[RangeInfo]) -> list[Interval]:
    return [Interval(each.min_key, each.min_key + b"\0") for each in ranges]


def test_a_merge_reads_only_changed_ranges_again(trees: Trees, tree: MetaRange) -> None:
    """Source and dest change the same ranges, at different keys."""
    mine = spots(tree)[4:14]
    source = moved(trees, tree, inner_change(*mine))
    seconds = [min(key for key in PAIRS if key > each.min_key) for each in mine]
    dest = moved(trees, tree, {key: other_identity(key) for key in seconds})
    attempts = merges(trees, Strategy.DEST_WINS)
    attempts.attempt(merge_plan(tree, source, dest))
    assert len(set(attempts.reads)) == 30
    later = moved(trees, dest, inner_change(spots(tree)[1]))
    attempts.attempt(merge_plan(tree, source, later))
    assert attempts.reads == []
    last = moved(trees, later, {seconds[5]: None})
    attempts.attempt(merge_plan(tree, source, last))
    (new,) = fresh(later, last)
    (theirs_id,) = (each.id for each in source.ranges if each.min_key == mine[5].min_key)
    assert sorted(attempts.reads) == sorted([mine[5].id, theirs_id, new])


def test_a_joined_range_is_reused_with_its_neighbour(trees: Trees, tree: MetaRange) -> None:
    here = spots(tree)[5]
    layer = trees.rows({here.max_key: None})
    attempts = commits(trees)
    first = attempts.attempt(layers_plan(tree, [layer]))
    assert len(attempts.reads) > 1
    assert len(first.ranges) < len(tree.ranges)
    head = moved(trees, tree, inner_change(spots(tree)[1]))
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == []


def test_a_staged_record_without_effect_takes_effect_over_a_new_head(
    trees: Trees, tree: MetaRange
) -> None:
    here = spots(tree)[5]
    layer = trees.rows({here.min_key: PAIRS[here.min_key]})
    attempts = commits(trees)
    assert attempts.attempt(layers_plan(tree, [layer])) == tree
    head = moved(trees, tree, inner_change(here))
    assert head != tree
    assert attempts.attempt(layers_plan(head, [layer])) == tree


def test_an_open_tail_is_split_again_in_a_longer_tree(trees: Trees) -> None:
    """The last range of a lost tree may end anywhere, whatever it has in common with a new one."""
    pairs = dict(list(PAIRS.items())[:100])
    *_, last = sorted(pairs)
    pairs[last] = oracle.identity_of(last, SIZE, end=True, other_than=())
    changes = {last: other_identity(last)}
    tree, layer = trees.write(pairs), trees.rows(changes)
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [layer]))
    grown = pairs | {b"l%04d" % number: b"A" for number in range(20)}
    after = attempts.attempt(layers_plan(trees.write(grown), [layer]))
    assert after.id == oracle.meta_range_id(oracle.changed(grown, changes), SIZE)


# --- what makes two pieces the same ---------------------------------------------------------------

HERE = RangeInfo(RangeId("here"), b"d", b"f", 10, 100)
THERE = RangeInfo(RangeId("there"), b"d", b"f", 10, 100)
WIDE = RangeInfo(RangeId("wide"), b"a", b"z", 10, 100)
RESULT = RangeInfo(RangeId("result"), b"d", b"f", 10, 100)
BEFORE, AFTER = Interval(b"c", b"f\0"), Interval(b"b", b"f\0")


def opened(interval: Interval, *sides: tuple[RangeInfo, ...]) -> Plan:
    return Plan((OpenPiece(interval, tuple(map(SideStream, sides))),))


def is_taken_over(old: Plan, new: Plan, layered: bool) -> bool:
    rest = reusing(new, ExecutedPlan(old, (RESULT,)), layered=layered)
    assert rest.pieces in ((CopiedPiece((RESULT,)),), new.pieces)
    return rest.pieces != new.pieces


def test_a_gap_before_a_piece_is_ignored() -> None:
    assert is_taken_over(opened(BEFORE, (HERE,)), opened(AFTER, (HERE,)), True)


def test_a_range_beyond_its_piece_is_not_reused_in_another_interval() -> None:
    row = SideStream(rows=((b"d", b"stored"),))
    old, new = (
        Plan((OpenPiece(interval, (SideStream((HERE,)), SideStream((WIDE,)), row)),))
        for interval in (Interval(b"d", b"f\0"), Interval(b"d", b"g\0"))
    )
    assert is_taken_over(old, old, True)
    assert not is_taken_over(old, new, True)


@pytest.mark.parametrize("layered", [True, False])
def test_an_empty_layer_is_ignored_but_an_empty_merge_side_is_not(layered: bool) -> None:
    old = opened(BEFORE, (HERE,), (), (THERE,))
    new = opened(BEFORE, (HERE,), (THERE,), ())
    assert is_taken_over(old, old, layered)
    assert is_taken_over(old, new, layered) == layered


def test_an_empty_base_is_not_a_layer() -> None:
    old, new = opened(BEFORE, (), (HERE,)), opened(BEFORE, (HERE,), ())
    assert not is_taken_over(old, new, True)
