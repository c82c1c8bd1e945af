"""Plans and task bodies restricted to selected keys, compared with plain dicts."""

from __future__ import annotations

import random
from functools import partial

import pytest

from sparklake.engine.execution import run_plan
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.filtered import plan_filtered_merge, plan_restore, plan_without
from sparklake.graveler.planning.path_filter import PathFilter, filter_for
from sparklake.graveler.planning.plan import Plan
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.objects import restore_body
from sparklake.udfs.write_ranges import apply_body, merge_body
from tests.support import oracle
from tests.support.oracle import Changes, Contents
from tests.support.seeds import seeds
from tests.support.trees import Trees, open_trees, staged_records

IDENTITIES = (b"A", b"B", b"C")
FOLDERS = [f"{name}/" for name in ("a", "a/b", "b", "b-c", "d", "é")]
KEYS = [f"{folder}{number:02d}".encode() for folder in FOLDERS for number in range(25)]


def tree_of(chance: random.Random, start: Contents) -> Contents:
    """Return contents with sparse changes, and some folders changed as a whole."""
    rewritten = tuple(each.encode() for each in FOLDERS if chance.random() < 0.2)
    rate = chance.choice((0.02, 0.2))
    return oracle.changed(
        start,
        {
            key: chance.choice((*IDENTITIES, None))
            for key in KEYS
            if chance.random() < (0.9 if key.startswith(rewritten or b"\0") else rate)
        },
    )


def choice_of(chance: random.Random) -> tuple[PathFilter, set[bytes]]:
    """Return a path filter and the members of KEYS it selects."""
    paths = [
        *chance.sample(FOLDERS, chance.randint(0, 2)),
        *(key.decode() for key in chance.sample(KEYS, chance.randint(1, 4))),
    ]
    selected = {
        key
        for key in KEYS
        for path in paths
        if key == path.encode() or (path.endswith("/") and key.startswith(path.encode()))
    }
    return filter_for(paths), selected


def of(contents: Contents, keys: set[bytes]) -> Contents:
    return {key: identity for key, identity in contents.items() if key in keys}


def check_opened(plan: Plan, path_filter: PathFilter) -> None:
    """Check that every opened range overlaps the selected keys."""
    for each in plan.opened:
        assert path_filter.parts(Interval(each.min_key, successor(each.max_key)))


@pytest.mark.parametrize("seed", seeds(60, always=10))
def test_a_merge_of_selected_keys_changes_only_them(seed: int) -> None:
    chance = random.Random(seed)
    base = tree_of(chance, {})
    source, dest = tree_of(chance, base), tree_of(chance, base)
    path_filter, selected = choice_of(chance)
    range_records = chance.choice((2, 3, 5, 8))
    inside, conflicts = oracle.merged(
        *(of(each, selected) for each in (base, source, dest, source))
    )
    expected = {**of(dest, set(dest) - selected), **inside}
    with open_trees(range_records) as trees:
        sides = [trees.write(each).ranges for each in (base, source, dest)]
        plan = plan_filtered_merge(*sides, path_filter)
        check_opened(plan, path_filter)
        body = partial(
            merge_body, trees.workspace, Resolution(Strategy.SOURCE_WINS), path_filter=path_filter
        )
        for task_records in (1, 20, 1_000_000):
            outcome = run_plan(trees.runner, body, plan, task_records)
            tree = trees.finish(outcome.pieces)
            assert trees.contents(tree) == expected
            assert tree.id == oracle.meta_range_id(expected, range_records)
            assert outcome.conflict_count == len(conflicts)


@pytest.mark.parametrize("seed", seeds(40, always=8))
def test_a_restore_stages_only_selected_keys(seed: int) -> None:
    chance = random.Random(seed)
    left = tree_of(chance, {})
    if chance.random() < 0.5:
        left = {key: each for key, each in left.items() if not key.startswith(b"a/")}
    right = tree_of(chance, left)
    path_filter, selected = choice_of(chance)
    changes: Changes = {
        key: after
        for key, (_, after) in oracle.differences(of(left, selected), of(right, selected)).items()
    }
    with open_trees(chance.choice((2, 3, 5, 8))) as trees:
        sides = [trees.write(each).ranges for each in (left, right)]
        plan = plan_restore(*sides, path_filter)
        check_opened(plan, path_filter)
        body = partial(restore_body, trees.workspace, path_filter)
        for task_records in (1, 20, 1_000_000):
            outcome = run_plan(trees.runner, body, plan, task_records)
            run = trees.finish(outcome.pieces)
            assert trees.records(run.ranges) == staged_records(changes)
            assert run.id == trees.write_records(staged_records(changes)).id
            assert outcome.counts.removed == list(changes.values()).count(None)
            assert outcome.counts.total == len(changes)


@pytest.mark.parametrize("seed", seeds(20, always=4))
def test_a_tree_without_selected_keys_keeps_the_others(seed: int) -> None:
    chance = random.Random(seed)
    contents = tree_of(chance, {})
    path_filter, selected = choice_of(chance)
    expected = of(contents, set(contents) - selected)
    with open_trees(chance.choice((2, 3, 5, 8))) as trees:
        tree = trees.write(contents)
        plan = plan_without(tree.ranges, path_filter)
        check_opened(plan, path_filter)
        outcome = run_plan(trees.runner, partial(apply_body, trees.workspace), plan)
        assert trees.contents(tree_after := trees.finish(outcome.pieces)) == expected
        assert tree_after.id == trees.write(expected).id


def whole(trees: Trees, contents: Contents) -> set[str]:
    return {each.id for each in trees.write(contents).ranges}


def test_new_ranges_are_restored_by_id() -> None:
    right = dict.fromkeys(KEYS, b"A")
    left = {key: b"A" for key in KEYS if not key.startswith(b"b/")}
    with open_trees(2) as trees:
        plan = plan_restore(trees.write(left).ranges, trees.write(right).ranges, filter_for(["b/"]))
        assert len(plan.adopted) > 3
        assert {each.id for each in plan.adopted} <= whole(trees, right)
        assert len(plan.opened) <= 5
