"""Merges with rules and functions for conflicts, compared with plain dicts."""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake.engine.base import Runner
from sparklake.engine.execution import run_plan
from sparklake.errors import StrategyError
from sparklake.graveler.planning.plan import plan_merge
from sparklake.graveler.ranges import MetaRange
from sparklake.strategies.choosing import parse_resolution
from sparklake.strategies.functions import PickledStrategy
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import merge_body
from tests.graveler.merge_table import CONFLICT, MERGE_TABLE, Row
from tests.support import oracle
from tests.support.globs import fits
from tests.support.oracle import Contents
from tests.support.seeds import seeds
from tests.support.trees import Trees, open_trees

BY_NAME = "tests.support.strategies:as_named"
TAKES = ("base", "source", "dest", "delete", "conflict")
STRATEGIES = ("none", "source-wins", "dest-wins", BY_NAME)
GLOBS = ("**", "base/**", "s*/*", "d???/*", "*/A*", "**/*X*", "*/???", "delete/**/X*", "nothing")

Rules = list[tuple[str, str]]

ROWS = [(take, row) for take in TAKES for row in MERGE_TABLE]
"""The rows under each folder: what BY_NAME decides of them."""


def key_of(take: str, row: Row) -> bytes:
    return f"{take}/{row}".encode()


def side(number: int) -> Contents:
    return {key_of(take, row): row[number] for take, row in ROWS if row[number] is not None}


SIDES = (side(0), side(1), side(2))


def decided(take: str, row: Row, strategy: str, rules: Rules) -> bytes | str | None:
    """Return the resulting identity of a row, None for no record, or CONFLICT."""
    if not row.is_conflict:
        return row.no_strategy
    path = key_of(take, row).decode()
    name = next((name for glob, name in rules if fits(glob, path)), strategy)
    if name == BY_NAME:
        name = take
    choices = {
        "base": row.base,
        "source": row.source,
        "source-wins": row.source,
        "dest": row.dest,
        "dest-wins": row.dest,
        "delete": None,
    }
    return choices.get(name, CONFLICT)


def check(trees: Trees, sides: list[MetaRange], strategy: str, rules: Rules, tasks: int) -> None:
    expected = {key_of(*each): decided(*each, strategy, rules) for each in ROWS}
    unresolved = sorted(key for key, result in expected.items() if result == CONFLICT)
    before = trees.names()
    outcome = trees.merge(*sides, parse_resolution(strategy, rules), tasks)
    assert outcome.conflict_count == sum(row.is_conflict for _, row in ROWS)
    assert outcome.left_count == len(unresolved)
    assert [each.key for each in outcome.conflicts] == unresolved
    if unresolved:
        if tasks > len(ROWS) * 3:
            assert trees.names() == before
        return
    contents = {key: each for key, each in sorted(expected.items()) if isinstance(each, bytes)}
    tree = trees.finish(outcome.pieces)
    assert trees.contents(tree) == contents
    assert tree.id == oracle.meta_range_id(contents, trees.workspace.range_records)


@pytest.mark.parametrize("range_records", [pytest.param(8, marks=pytest.mark.system), 1000])
def test_every_row_is_resolved_by_every_strategy_and_rule(range_records: int) -> None:
    with open_trees(range_records) as trees:
        sides = [trees.write(each) for each in SIDES]
        for strategy, glob, ruled in product(STRATEGIES, GLOBS, STRATEGIES):
            check(trees, sides, strategy, [(glob, ruled)], 10_000)


rules = st.lists(st.tuples(st.sampled_from(GLOBS), st.sampled_from(STRATEGIES)), max_size=4)


@pytest.mark.system
@settings(max_examples=40)
@given(st.sampled_from(STRATEGIES), rules, st.sampled_from((1, 7, 10_000)))
def test_the_first_matching_rule_decides(strategy: str, rules: Rules, tasks: int) -> None:
    with open_trees(3) as trees:
        check(trees, [trees.write(each) for each in SIDES], strategy, rules, tasks)


# --- many conflicts, in any number of tasks -------------------------------------------------------


def many(chance: random.Random, rate: float) -> Contents:
    keys = [f"{chance_of}/{number:04d}" for chance_of in TAKES[:4] for number in range(150)]
    return {key.encode(): b"%d" % chance.randrange(4) for key in keys if chance.random() < rate}


@pytest.mark.parametrize("seed", seeds(3, always=1))
def test_the_number_of_tasks_does_not_affect_the_tree(seed: int, runner: Runner) -> None:
    chance = random.Random(seed)
    sides = [many(chance, 0.9) for _ in range(3)]
    resolution = parse_resolution(BY_NAME, {"s*/*1": "source-wins", "d*/**": BY_NAME})
    expected, conflicts = merged(sides)
    with open_trees(4) as trees:
        meta_ranges = [trees.write(each) for each in sides]
        plan = plan_merge(*(each.ranges for each in meta_ranges))
        body = partial(merge_body, trees.workspace, resolution)
        for task_records in (20, 300, 100_000):
            outcome = run_plan(runner, body, plan, task_records)
            assert (outcome.conflict_count, outcome.left_count) == (conflicts, 0)
            tree = trees.finish(outcome.pieces)
            assert tree.id == oracle.meta_range_id(expected, 4)
            assert trees.contents(tree) == expected


def merged(sides: list[Contents]) -> tuple[Contents, int]:
    """Return the result of BY_NAME and its rules for three sides, and the number of conflicts."""
    result, conflicts = {}, 0
    for key in sorted({key for each in sides for key in each}):
        base, source, dest = (each.get(key) for each in sides)
        if source in (dest, base):
            value = dest
        elif dest == base:
            value = source
        else:
            conflicts += 1
            path = key.decode()
            take = "source" if fits("s*/*1", path) else path.partition("/")[0]
            value = {"base": base, "source": source, "dest": dest, "delete": None}[take]
        if value is not None:
            result[key] = value
    return result, conflicts


@pytest.mark.system
def test_a_function_receives_many_conflicts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [b"k%04d" % number for number in range(1000)]
    sizes: list[int] = []

    def counting(conflicts: object, objects: object) -> list[str]:
        sizes.append(conflicts.num_rows)
        return ["source"] * conflicts.num_rows

    def sides(trees: Trees) -> list[MetaRange]:
        changes = ({}, dict.fromkeys(keys[::10], b"S"), dict.fromkeys(keys[::10], b"D"))
        return [trees.write(dict.fromkeys(keys, b"A") | each) for each in changes]

    resolution = Resolution(PickledStrategy("counting", counting))
    with open_trees(2) as trees:
        trees.merge(*sides(trees), resolution, 100_000)
        assert sum(sizes) == 100
        assert max(sizes) > 10
        sizes.clear()
        monkeypatch.setattr("sparklake.graveler.algebra.three_way_merge.CONFLICTS_AT_ONCE", 7)
        trees.merge(*sides(trees), resolution, 100_000)
        assert sum(sizes) == 100
        assert max(sizes) == 7


def test_a_failing_function_is_reported_from_a_thread(threads: Runner) -> None:
    with open_trees(3) as trees:
        meta_ranges = [trees.write(each) for each in SIDES]
        before = trees.names()
        body = partial(
            merge_body, trees.workspace, parse_resolution("tests.support.strategies:failing")
        )
        plan = plan_merge(*(each.ranges for each in meta_ranges))
        with pytest.raises(StrategyError, match=r"strategies:failing'.*no idea") as raised:
            run_plan(threads, body, plan, 100_000)
        assert "'base/ABC'" in str(raised.value)
        assert trees.names() == before


def test_a_local_function_runs_in_threads(threads: Runner) -> None:
    side_name = "source"
    resolution = parse_resolution(lambda conflicts, objects: [side_name] * conflicts.num_rows)
    with open_trees(3) as trees:
        meta_ranges = [trees.write(each) for each in SIDES]
        plan = plan_merge(*(each.ranges for each in meta_ranges))
        body = partial(merge_body, trees.workspace, resolution)
        tree = trees.finish(run_plan(threads, body, plan, 50).pieces)
        assert trees.contents(tree) == {
            key_of(take, row): row.source_wins
            for take, row in sorted(ROWS, key=lambda each: key_of(*each))
            if row.source_wins is not None
        }


def test_keys_that_are_not_utf8_are_resolved() -> None:
    key = b"raw/\xff.csv"
    with open_trees(3) as trees:
        sides = [trees.write({key: each}) for each in (b"A", b"B", b"C")]
        for rules, expected in (
            ({"raw/*.csv": "source-wins"}, b"B"),
            ({"raw/**": "keep-both"}, b"C"),
            ({"*": "source-wins", "**": "dest-wins"}, b"C"),
        ):
            outcome = trees.merge(*sides, parse_resolution(rules=rules))
            assert trees.contents(trees.finish(outcome.pieces)) == {key: expected}
            assert [each.target for each in outcome.kept_objects] == (
                [b"raw/\xff.source.csv"] if "raw/**" in rules else []
            )
