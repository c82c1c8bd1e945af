"""What a lost attempt has made is taken over: the tree is the same, and what is read has moved."""

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
    made: ExecutedPlan | None = None
    reads: list[str] = field(default_factory=list)

    def attempt(self, plan: Plan) -> MetaRange:
        rest = reusing(plan, self.made, layered=self.layered) if self.made else plan
        with recorded_reads() as self.reads:
            outcome = run_plan(self.trees.runner, self.body, rest, self.task_records)
            tree = self.trees.finish(outcome.pieces)
        self.made = ExecutedPlan(plan, tree.ranges)
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
def test_commits_over_a_moving_head(
    pairs: Contents,
    staged: list[tuple[Changes, bool]],
    turns: list[tuple[Changes, int, int]],
    range_records: int,
    task_records: int,
) -> None:
    """Layers come on top and go at the bottom meanwhile, as when others put and commit."""
    with open_trees(range_records) as trees:
        layers = [
            (trees.run(each) if as_run else trees.rows(each), each) for each, as_run in staged
        ]
        attempts = commits(trees, task_records)
        for change, first, last in [({}, 0, 4), *turns]:
            pairs = oracle.changed(pairs, change)
            chosen = layers[first : first + last]
            after = pairs
            for _, layer in reversed(chosen):
                after = oracle.changed(after, layer)
            plan = layers_plan(trees.write(pairs), [layer for layer, _ in chosen])
            assert attempts.attempt(plan).id == oracle.meta_range_id(after, range_records)


@pytest.mark.system
@given(bases, changes, changes, moves, sizes, task_sizes, st.sampled_from(Strategy))
@settings(max_examples=60)
def test_merges_into_a_moving_dest(
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
def test_imports_into_a_moving_head(
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


# --- what a second attempt reads ------------------------------------------------------------------

SIZE = 8
PAIRS: Contents = {b"k%04d" % number: b"identity-%d" % (number % 3) for number in range(600)}


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(SIZE) as opened:
        yield opened


@pytest.fixture
def tree(trees: Trees) -> MetaRange:
    written = trees.write(PAIRS)
    assert len(written.ranges) > 50
    return written


def spots(tree: MetaRange) -> list[RangeInfo]:
    """Return ranges, none beside another, whose first key can change with nothing else."""
    fitting = [
        here
        for before, here in pairwise(tree.ranges[:-1])
        if here.count >= 3 and before.count < 3 * SIZE and here.count < 3 * SIZE
    ]
    return fitting[::3]


def inner_change(*ranges: RangeInfo) -> Changes:
    """Return a change of the first record of ranges, which then ends none."""
    return {each.min_key: other_identity(each.min_key) for each in ranges}


def other_identity(key: bytes) -> bytes:
    return oracle.identity_of(key, SIZE, end=False, other_than=PAIRS.values())


def moved(trees: Trees, head: MetaRange, change: Changes) -> MetaRange:
    after, _ = trees.commit(head, [trees.rows(change)])
    return after


def fresh(old: MetaRange, new: MetaRange) -> list[str]:
    """Return the ids of the ranges that a tree has and another one has not."""
    known = {each.id for each in old.ranges}
    return [each.id for each in new.ranges if each.id not in known]


def test_what_others_changed_elsewhere_costs_no_read(trees: Trees, tree: MetaRange) -> None:
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


def test_only_the_range_that_moved_is_read_again(trees: Trees, tree: MetaRange) -> None:
    mine = spots(tree)[4:14]
    layer = trees.rows(inner_change(*mine))
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [layer]))
    key = min(key for key in PAIRS if key > mine[5].min_key)
    head = moved(trees, tree, {key: other_identity(key)})
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == fresh(tree, head)
    assert len(attempts.reads) == 1


def test_a_neighbour_whose_end_moved_is_no_reason_to_read(trees: Trees, tree: MetaRange) -> None:
    """The interval of a piece begins where the range before it ends."""
    here = spots(tree)[5]
    at = tree.ranges.index(here)
    new = tree.ranges[at - 1].max_key + b"-new"
    attempts, layer = commits(trees), trees.rows(inner_change(here))
    attempts.attempt(layers_plan(tree, [layer]))
    head = moved(trees, tree, {new: oracle.identity_of(new, SIZE, end=True, other_than=())})
    assert (head.ranges[at].max_key, head.ranges[at + 1]) == (new, here)
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == []


def test_layers_that_come_and_go_cost_no_read(trees: Trees, tree: MetaRange) -> None:
    """The winner has committed the older layer; a writer has put a newer one on top."""
    one, two, three = (trees.rows(inner_change(each)) for each in spots(tree)[3:6])
    attempts = commits(trees)
    attempts.attempt(layers_plan(tree, [two, one]))
    head, _ = trees.commit(tree, [one])
    attempts.attempt(layers_plan(head, [three, two]))
    assert attempts.reads == [spots(tree)[5].id]


def test_a_run_beside_rows_is_taken_over(trees: Trees, tree: MetaRange) -> None:
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


def test_a_merge_reads_only_what_moved(trees: Trees, tree: MetaRange) -> None:
    """Source and dest have both changed the same ranges, at different keys."""
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


def test_an_end_that_vanished_is_taken_over_with_what_it_was_joined_with(
    trees: Trees, tree: MetaRange
) -> None:
    here = spots(tree)[5]
    layer = trees.rows({here.max_key: None})
    attempts = commits(trees)
    first = attempts.attempt(layers_plan(tree, [layer]))
    assert len(attempts.reads) > 1
    assert len(first.ranges) < len(tree.ranges)
    head = moved(trees, tree, inner_change(spots(tree)[1]))
    attempts.attempt(layers_plan(head, [layer]))
    assert attempts.reads == []


def test_a_staged_record_that_was_none_over_the_old_head_is_one_over_the_new(
    trees: Trees, tree: MetaRange
) -> None:
    here = spots(tree)[5]
    layer = trees.rows({here.min_key: PAIRS[here.min_key]})
    attempts = commits(trees)
    assert attempts.attempt(layers_plan(tree, [layer])) == tree
    head = moved(trees, tree, inner_change(here))
    assert head != tree
    assert attempts.attempt(layers_plan(head, [layer])) == tree


def test_a_tail_that_was_open_is_cut_again_where_the_tree_now_goes_on(trees: Trees) -> None:
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


def test_a_gap_before_a_piece_does_not_count() -> None:
    assert is_taken_over(opened(BEFORE, (HERE,)), opened(AFTER, (HERE,)), True)


def test_a_range_that_reaches_out_of_a_piece_has_other_records_in_another_interval() -> None:
    row = SideStream(rows=((b"d", b"stored"),))
    old, new = (
        Plan((OpenPiece(interval, (SideStream((HERE,)), SideStream((WIDE,)), row)),))
        for interval in (Interval(b"d", b"f\0"), Interval(b"d", b"g\0"))
    )
    assert is_taken_over(old, old, True)
    assert not is_taken_over(old, new, True)


@pytest.mark.parametrize("layered", [True, False])
def test_an_empty_layer_says_nothing_and_an_empty_side_of_a_merge_does(layered: bool) -> None:
    old = opened(BEFORE, (HERE,), (), (THERE,))
    new = opened(BEFORE, (HERE,), (THERE,), ())
    assert is_taken_over(old, old, layered)
    assert is_taken_over(old, new, layered) == layered


def test_an_empty_base_is_no_layer() -> None:
    old, new = opened(BEFORE, (), (HERE,)), opened(BEFORE, (HERE,), ())
    assert not is_taken_over(old, new, True)
