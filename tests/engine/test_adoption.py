"""Ranges of staged runs are adopted by the tree without being read."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.counting import recorded_reads
from sparklake.engine.execution import run_plan
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.planning.layers import plan_apply, plan_view
from sparklake.graveler.ranges import RangeInfo
from sparklake.udfs.write_ranges import apply_body
from tests.support import oracle
from tests.support.oracle import Changes, Contents
from tests.support.trees import Layer, Trees, open_trees, side_of, touched

SIZE = 4
FOLDERS = (b"a/", b"b/", b"c/", b"d/", b"e/")
OLD: Contents = {b"%b%03d" % (folder, at): b"A" for folder in (b"a/", b"c/") for at in range(90)}


def bulk(folder: bytes, first: int, count: int) -> Changes:
    return {b"%b%03d" % (folder, at): b"B" for at in range(first, first + count)}


def joined(parts: list[Changes]) -> Changes:
    return {key: each for part in parts for key, each in part.items()}


bulks = st.builds(bulk, st.sampled_from(FOLDERS), st.integers(0, 40), st.integers(1, 40))
single = st.tuples(st.sampled_from(FOLDERS), st.integers(0, 80))
deletions = single.map(lambda key: {b"%b%03d" % key: None})
changes = st.lists(bulks | deletions, max_size=4).map(joined)
contents = st.lists(bulks, max_size=3).map(joined).map(partial(oracle.changed, {}))


@pytest.mark.system
@given(
    contents,
    st.lists(st.tuples(changes, st.booleans()), min_size=1, max_size=3),
    st.sampled_from((1, 2, 4)),
    st.sampled_from((1, 20, 1_000_000)),
)
@settings(max_examples=80)
def test_a_commit_with_adopted_ranges_equals_one_without(
    base: Contents, staged: list[tuple[Changes, bool]], range_records: int, task_records: int
) -> None:
    with open_trees(range_records) as trees:
        tree, after = trees.write(base), base
        layers: list[Layer] = []
        for layer, as_run in staged:
            layers.insert(0, trees.run(layer) if as_run else trees.rows(layer))
            after = oracle.changed(after, layer)
        sides, spots = [*map(side_of, layers)], touched(layers)
        body = partial(apply_body, trees.workspace)
        without_adoption, adopting = (
            run_plan(trees.runner, body, planned(tree.ranges, sides, spots), task_records)
            for planned in (plan_view, plan_apply)
        )
        assert adopting.counts == without_adoption.counts
        tree_after = trees.finish(adopting.pieces)
        assert tree_after == trees.finish(without_adoption.pieces)
        assert tree_after.id == oracle.meta_range_id(after, range_records)
        assert trees.contents(tree_after) == after


def commit(
    trees: Trees, base: Contents, layers: list[Layer], after: Contents
) -> tuple[list[RangeInfo], list[str], ChangeCounts]:
    """Return the ranges of a commit, the ids read for it, and its counts."""
    tree = trees.write(base)
    with recorded_reads() as reads:
        tree_after, outcome = trees.commit(tree, layers)
    assert tree_after.id == oracle.meta_range_id(after, SIZE)
    return list(tree_after.ranges), reads, outcome.counts


def test_a_new_last_folder_reads_only_the_tail_of_the_tree() -> None:
    new = bulk(b"d/", 0, 100)
    with open_trees(SIZE) as trees:
        run, tail = trees.run(new), trees.write(OLD).ranges[-1]
        _, reads, counts = commit(trees, OLD, [run], oracle.changed(OLD, new))
        *others, last = run.tree.ranges
        assert {tail.id} <= {*reads}
        assert not {last.id} & {*reads}
        # Behind the open tail a few ranges are cut again, up to the first common end.
        assert len({each.id for each in others} & {*reads}) < len(others) / 2
        assert counts == ChangeCounts(added=100)


def test_a_new_folder_in_the_middle_reads_only_at_its_end() -> None:
    new = bulk(b"b/", 0, 100)
    new[b"b/099"] = oracle.identity_of(b"b/099", SIZE, end=False, other_than=())
    with open_trees(SIZE) as trees:
        # The range of the base that the folder would fall into is out of the way.
        ended = {key: b"A" for key in OLD if key < b"b"}
        ended[max(ended)] = oracle.identity_of(max(ended), SIZE, end=True, other_than=())
        base = ended | {key: b"A" for key in OLD if key > b"c"}
        run = trees.run(new)
        _, reads, counts = commit(trees, base, [run], oracle.changed(base, new))
        following = [each for each in trees.write(base).ranges if each.min_key >= b"c"]
        assert reads[:2] == [run.tree.ranges[-1].id, following[0].id]
        assert not {each.id for each in run.tree.ranges[:-1]} & {*reads}
        assert counts == ChangeCounts(added=100)


def test_ranges_with_tombstones_are_read() -> None:
    new = bulk(b"d/", 0, 100) | {b"d/050": None}
    with open_trees(SIZE) as trees:
        run = trees.run(new)
        (deleting,) = (each for each in run.tree.ranges if each.tombstones)
        assert trees.read_back(run.tree) == run.tree
        with recorded_reads() as reads:
            tree, outcome = trees.commit(trees.write({}), [run])
        assert tree.id == oracle.meta_range_id(oracle.changed({}, new), SIZE)
        assert deleting.id in reads
        assert outcome.counts == ChangeCounts(added=99)


def test_a_range_that_overlaps_another_layer_is_read() -> None:
    new = bulk(b"d/", 0, 100)
    with open_trees(SIZE) as trees:
        run = trees.run(new)
        here = next(each for each in run.tree.ranges if each.min_key < b"d/050" <= each.max_key)
        for other in (trees.rows({b"d/050": None}), trees.run({b"d/050": b"C"})):
            for layers in ([other, run], [run, other]):
                sides = [*map(side_of, layers)]
                plan = plan_apply((), sides, touched(layers))
                assert here in plan.opened
                assert plan.adopted == tuple(each for each in run.tree.ranges if each != here)


def test_a_view_reads_the_ranges_that_a_commit_adopts() -> None:
    with open_trees(SIZE) as trees:
        run = trees.run(bulk(b"d/", 0, 100))
        plan = plan_view((), [side_of(run)], touched([run]))
        assert plan.opened == tuple(run.tree.ranges)
        assert plan.adopted == ()
