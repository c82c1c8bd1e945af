"""Merges through plan, task bodies and stitching, against plain dicts."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from benchmarks.counting import recorded_reads
from sparklake.engine.execution import run_plan
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.planning.plan import CopiedPiece, plan_merge
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.records import decode_record
from sparklake.graveler.sstable.range_files import NO_TREE
from tests.graveler.merge_table import MERGE_TABLE, Row
from tests.support import oracle
from tests.support.cases import for_each
from tests.support.oracle import Contents
from tests.support.trees import Trees, open_trees

Sides = tuple[Contents, Contents, Contents]

RANGE_RECORDS = (2, 3, 4, 5, 8)
IDENTITIES = (b"A", b"B", b"C")
BATCHES = 40
CASES = 60
"""Cases in one tree: each has its own key prefix, and range ends fall anywhere among them."""


def one_case(chance: random.Random, prefix: bytes) -> Sides:
    keys = [prefix + b"%d" % number for number in range(chance.randint(0, 6))]
    base = {key: chance.choice(IDENTITIES) for key in keys if chance.random() < 0.8}

    def edited() -> Contents:
        rate = chance.choice((0, 0, 0.15, 0.5))
        edits = {key: chance.choice((*IDENTITIES, None)) for key in keys if chance.random() < rate}
        return oracle.changed(base, edits)

    return base, edited(), edited()


def all_of(cases: list[Sides], side: int) -> Contents:
    return {key: each for case in cases for key, each in case[side].items()}


def check_conflict(conflict: Conflict, sides: Sides) -> None:
    stored_sides = (conflict.base, conflict.source, conflict.dest)
    for stored, side in zip(stored_sides, sides, strict=True):
        identity = None if stored is None else decode_record(conflict.key, stored).identity
        assert identity == side.get(conflict.key)


@for_each("batch", range(BATCHES))
def test_random_merges_with_shared_identities(batch: int) -> None:
    chance = random.Random(batch)
    cases = [one_case(chance, b"case-%02d/" % number) for number in range(CASES)]
    sides: Sides = (all_of(cases, 0), all_of(cases, 1), all_of(cases, 2))
    task_records = chance.choice((1, 50, 1_000_000))
    range_records = RANGE_RECORDS[batch % len(RANGE_RECORDS)]
    with open_trees(range_records) as trees:
        base, source, dest = map(trees.write, sides)
        for strategy, winner in ((Strategy.SOURCE_WINS, 1), (Strategy.DEST_WINS, 2)):
            outcome = trees.merge(base, source, dest, strategy, task_records)
            tree = trees.finish(outcome.pieces)
            expected, conflicts = oracle.merged(*sides, winner=sides[winner])
            contents = trees.contents(tree)
            for case in cases:
                result, _ = oracle.merged(*case, winner=case[winner])
                keys = {key for side in case for key in side}
                assert {key: contents[key] for key in sorted(keys & {*contents})} == result, case
            assert contents == expected
            assert tree.id == oracle.meta_range_id(expected, range_records)
            assert outcome.conflict_count == len(conflicts)

        preview = trees.merge(base, source, dest, None, task_records)
        assert [each.key for each in preview.conflicts] == conflicts
        for conflict in preview.conflicts:
            check_conflict(conflict, sides)


# --- the table ------------------------------------------------------------------------------------


def table_side(rows: list[Row], side: int) -> Contents:
    return {str(row).encode(): row[side] for row in rows if row[side] is not None}


def table_trees(trees: Trees, rows: list[Row]) -> list[MetaRange]:
    return [trees.write(table_side(rows, side)) for side in range(3)]


@pytest.mark.parametrize("range_records", [1, 3, 1000])
@pytest.mark.parametrize("strategy", Strategy)
def test_every_row_of_the_merge_table_is_merged(strategy: Strategy, range_records: int) -> None:
    rows = list(MERGE_TABLE)
    with open_trees(range_records) as trees:
        outcome = trees.merge(*table_trees(trees, rows), strategy)
        assert trees.contents(trees.finish(outcome.pieces)) == {
            str(row).encode(): row.result(strategy)
            for row in sorted(rows, key=str)
            if row.result(strategy) is not None
        }
        assert outcome.conflict_count == sum(row.is_conflict for row in rows)
        assert outcome.conflicts == []


@for_each("row", MERGE_TABLE)
def test_every_row_is_merged_in_a_separate_tree(row: Row) -> None:
    with open_trees(4) as trees:
        for strategy in Strategy:
            outcome = trees.merge(*table_trees(trees, [row]), strategy)
            result = row.result(strategy)
            expected = {} if result is None else {str(row).encode(): result}
            assert trees.contents(trees.finish(outcome.pieces)) == expected


def test_a_merge_without_a_strategy_lists_the_conflicts() -> None:
    rows = list(MERGE_TABLE)
    with open_trees(3) as trees:
        outcome = trees.merge(*table_trees(trees, rows), None)
        sides = (table_side(rows, 0), table_side(rows, 1), table_side(rows, 2))
        listed = [each.key.decode() for each in outcome.conflicts]
        assert listed == sorted(str(row) for row in rows if row.is_conflict)
        for conflict in outcome.conflicts:
            check_conflict(conflict, sides)


def test_a_merge_without_conflicts_needs_no_strategy() -> None:
    rows = [row for row in MERGE_TABLE if not row.is_conflict]
    with open_trees(3) as trees:
        outcome = trees.merge(*table_trees(trees, rows), None)
        assert outcome.conflict_count == 0
        assert trees.contents(trees.finish(outcome.pieces)) == {
            str(row).encode(): row.no_strategy
            for row in sorted(rows, key=str)
            if row.no_strategy is not None
        }


# --- reads and writes of a merge ------------------------------------------------------------------


def numbered(count: int) -> Contents:
    return {b"k%04d" % number: IDENTITIES[number % 3] for number in range(count)}


def test_a_merge_with_conflicts_writes_nothing() -> None:
    with open_trees(4) as trees:
        base = trees.write(numbered(100))
        source = trees.write(numbered(100) | {b"k0005": b"S", b"k0050": b"S"})
        dest = trees.write(numbered(100) | {b"k0005": b"D", b"k0051": b"D"})
        before = trees.names()
        outcome = trees.merge(base, source, dest, None)
        assert [each.key for each in outcome.conflicts] == [b"k0005"]
        assert trees.names() == before


@pytest.mark.parametrize("strategy", [None, *Strategy])
def test_a_merge_with_an_unchanged_side_reads_nothing(strategy: Strategy | None) -> None:
    with open_trees(4) as trees:
        base = trees.write(numbered(100))
        other = trees.write(numbered(60) | {b"k0005": b"S", b"x": b"S"})
        for source, dest, result in (
            (base, base, base),
            (other, base, other),
            (base, other, other),
            (other, other, other),
            (NO_TREE, base, NO_TREE),
            (base, NO_TREE, NO_TREE),
        ):
            with recorded_reads() as reads:
                outcome = trees.merge(base, source, dest, strategy)
                tree = trees.finish(outcome.pieces)
            assert reads == []
            assert tree == result
            assert outcome.conflict_count == 0


def test_a_merge_reads_only_ranges_changed_on_both_sides() -> None:
    size = 8
    pairs = numbered(400)
    mine, both = b"k0100", b"k0300"
    in_both = middle_of_range(pairs, both, size)
    source_pairs = pairs | {middle_of_range(pairs, mine, size): b"S", in_both: b"S"}
    with open_trees(size) as trees:
        base, source = trees.write(pairs), trees.write(source_pairs)
        dest = trees.write(pairs | {in_both: b"D"})
        plan = plan_merge(base.ranges, source.ranges, dest.ranges)
        opened = {
            each.id
            for tree in (base, source, dest)
            for each in tree.ranges
            if each.min_key <= in_both <= each.max_key
        }
        assert {each.id for each in plan.opened} == opened
        assert len(opened) == 3
        unopened = [each for each in dest.ranges if each.id not in opened]
        copied = [
            each for piece in plan.pieces if isinstance(piece, CopiedPiece) for each in piece.ranges
        ]
        assert len(copied) == len(unopened)
        assert len({each.id for each in copied} - {each.id for each in unopened}) == 1
        with recorded_reads() as reads:
            outcome = trees.merge(base, source, dest, Strategy.SOURCE_WINS)
            tree = trees.finish(outcome.pieces)
        # What is written is there already, as a range of source's, and is looked at again.
        assert set(reads) == opened
        assert len(reads) == len(opened) + 1
        assert tree == source


def middle_of_range(pairs: Contents, key: bytes, size: int) -> bytes:
    """Return a key after the given one that can become S or D without moving a range end."""
    for records in oracle.cut(pairs, size):
        if records[0][0] >= key and len(records) < 4 * size:
            for each, _ in records[:-1]:
                if not any(oracle.ends_range(each, identity, size) for identity in (b"S", b"D")):
                    return each
    raise AssertionError("no such range")


def test_a_resolution_that_deletes_a_range_end_reads_the_neighbour() -> None:
    """The result ends nowhere where the sides do.

    Source deletes the record that ends a range and makes the record before it an end; dest deletes
    that one. With dest-wins both are gone, and the range runs into its neighbour.
    """
    size = 4
    pairs = numbered(60)
    ranges = oracle.cut(pairs, size)
    here, following = next(
        (one, other)
        for one, other in pairwise(ranges)
        if len(one) >= 3 and len(one) + len(other) < 4 * size and other is not ranges[-1]
    )
    (contested, old), (end, _) = here[-2], here[-1]
    new = oracle.identity_of(contested, size, end=True, other_than=[old])
    source_pairs = oracle.changed(pairs, {end: None, contested: new})
    dest_pairs = oracle.changed(pairs, {contested: None})
    expected, conflicts = oracle.merged(pairs, source_pairs, dest_pairs, dest_pairs)
    assert conflicts == [contested]
    assert not {contested, end} & {*expected}
    with open_trees(size) as trees:
        base, source, dest = map(trees.write, (pairs, source_pairs, dest_pairs))
        plan = plan_merge(base.ranges, source.ranges, dest.ranges)
        neighbour = next(each for each in base.ranges if each.min_key == following[0][0])
        assert len(plan.opened) == 3
        assert neighbour not in plan.opened
        with recorded_reads() as reads:
            outcome = trees.merge(base, source, dest, Strategy.DEST_WINS)
            assert sorted(reads) == sorted(each.id for each in plan.opened)
            tree = trees.finish(outcome.pieces)
        (opened,) = (
            row.ranges[-1]
            for row in outcome.pieces
            if not row.closed and row.ranges[-1].max_key < end
        )
        assert reads[3:] == [opened.id, neighbour.id]
        assert tree.id == oracle.meta_range_id(expected, size)
        assert trees.contents(tree) == expected


def test_the_number_of_tasks_does_not_affect_the_result() -> None:
    pairs = numbered(300)
    with open_trees(4) as trees:
        base = trees.write(pairs)
        source = trees.write(pairs | dict.fromkeys(sorted(pairs)[::7], b"S"))
        dest = trees.write(pairs | dict.fromkeys(sorted(pairs)[::5], b"D"))
        results = set()
        for task_records in (1, 10, 100, 10_000):
            outcome = trees.merge(base, source, dest, Strategy.SOURCE_WINS, task_records)
            results.add((trees.finish(outcome.pieces), outcome.conflict_count))
        assert len(results) == 1
        assert run_plan(trees.runner, lambda _: iter(()), plan_merge((), (), ())).pieces == []
