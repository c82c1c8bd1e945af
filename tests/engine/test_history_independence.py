"""A tree is a function of its records: any commits, merges, imports and tasks end in one id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)

from sparklake.engine.base import Runner
from sparklake.engine.execution import PlanResult
from sparklake.graveler.algebra.changes import Change, ChangeType
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.keys import EVERYTHING, Interval, prefix_interval
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.sstable.range_files import NO_TREE
from tests.support import oracle
from tests.support.cases import for_each
from tests.support.oracle import Changes, Contents
from tests.support.trees import Layer, Trees, open_trees, records_of

RANGE_RECORDS = (1, 2, 3, 4, 5, 8)
FOLDERS = (b"a", b"b", b"c/", b"c/d/", b"\xff")
IDENTITIES = (b"A", b"B", b"C")

keys = st.builds(
    lambda folder, number: folder + b"%02d" % number, st.sampled_from(FOLDERS), st.integers(0, 11)
)
contents = st.dictionaries(keys, st.sampled_from(IDENTITIES), max_size=60)
ALL_KEYS = sorted(folder + b"%02d" % number for folder in FOLDERS for number in range(12))
full = st.builds(
    lambda dropped, chance: {
        key: chance.choice(IDENTITIES) for key in ALL_KEYS if key not in dropped
    },
    st.sets(keys, max_size=8),
    st.randoms(use_true_random=False),
)
changes = st.dictionaries(keys, st.sampled_from((*IDENTITIES, None)), max_size=8)
task_sizes = st.sampled_from((1, 7, 30, 1_000_000))
partitions = st.lists(st.integers(0, 60), max_size=4)
bounds = st.sampled_from(
    [
        EVERYTHING,
        *map(prefix_interval, FOLDERS),
        Interval(b"a03", b"a04"),
        Interval(b"a03", None),
        Interval(b"", b"b05"),
        Interval(b"c", b"c"),
        Interval(b"\xff\xff", None),
    ]
)


@given(contents, partitions, st.sampled_from(RANGE_RECORDS))
@settings(max_examples=60)
def test_partitions_do_not_affect_a_run(
    pairs: Contents, cuts: list[int], range_records: int
) -> None:
    with open_trees(range_records) as trees:
        tree = trees.write_records(records_of(pairs), cuts)
        assert tree.id == oracle.meta_range_id(pairs, range_records)
        assert [each.id for each in tree.ranges] == oracle.range_ids(pairs, range_records)
        assert trees.read_back(tree) == tree
        assert trees.contents(tree) == pairs


@pytest.mark.system
@given(
    full, contents, st.tuples(keys, st.none() | keys), st.sampled_from(RANGE_RECORDS), task_sizes
)
@settings(max_examples=60)
def test_a_replaced_interval_equals_a_replaced_dict(
    pairs: Contents,
    others: Contents,
    ends: tuple[bytes, bytes | None],
    range_records: int,
    task_records: int,
) -> None:
    """Bound fall anywhere: both into one range, too."""
    start, stop = ends
    within = Interval(start, stop) if stop is None or start <= stop else Interval(stop, start)
    inside = {key: each for key, each in others.items() if key in within}
    expected = {key: each for key, each in pairs.items() if key not in within} | inside
    with open_trees(range_records) as trees:
        tree = trees.replace(trees.write(pairs), trees.write(inside), within, task_records)
        assert tree.id == oracle.meta_range_id(expected, range_records)
        assert trees.contents(tree) == dict(sorted(expected.items()))


def changed_counts(before: Contents, after: Contents) -> dict[ChangeType, int]:
    kinds = [Change(key, *both).type for key, both in oracle.differences(before, after).items()]
    return {kind: kinds.count(kind) for kind in kinds}


def counted(outcome: PlanResult) -> dict[ChangeType, int]:
    counts = outcome.counts
    counts_by_type = {
        ChangeType.ADDED: counts.added,
        ChangeType.REMOVED: counts.removed,
        ChangeType.CHANGED: counts.changed,
    }
    return {kind: count for kind, count in counts_by_type.items() if count}


class Histories(RuleBasedStateMachine):
    """Makes trees of trees. Each result is a metarange with its expected dict."""

    results = Bundle("results")

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self.runner = runner
        self.opened = ExitStack()
        self.trees: Trees

    def teardown(self) -> None:
        self.opened.close()

    def checked(self, tree: MetaRange, pairs: Contents) -> tuple[MetaRange, Contents]:
        assert tree.id == oracle.meta_range_id(pairs, self.trees.workspace.range_records)
        assert self.trees.contents(tree) == pairs
        assert sum(each.count for each in tree.ranges) == len(pairs)
        return tree, pairs

    @initialize(target=results, range_records=st.sampled_from(RANGE_RECORDS))
    def create(self, range_records: int) -> tuple[MetaRange, Contents]:
        self.trees = self.opened.enter_context(open_trees(range_records, self.runner))
        return NO_TREE, {}

    @rule(target=results, pairs=contents | full, cuts=partitions)
    def write(self, pairs: Contents, cuts: list[int]) -> tuple[MetaRange, Contents]:
        return self.checked(self.trees.write_records(records_of(pairs), cuts), pairs)

    @rule(
        target=results,
        base=results,
        staged=st.lists(st.tuples(changes, st.none() | partitions), max_size=3),
        task_records=task_sizes,
    )
    def commit(
        self,
        base: tuple[MetaRange, Contents],
        staged: list[tuple[Changes, list[int] | None]],
        task_records: int,
    ) -> tuple[MetaRange, Contents]:
        """Commit layers, given oldest first: rows, or runs of several partitions."""
        layers: list[Layer] = []
        after = base[1]
        for layer, cuts in staged:
            as_rows = cuts is None
            layers.append(self.trees.rows(layer) if as_rows else self.trees.run(layer, cuts))
            after = oracle.changed(after, layer)
        tree, outcome = self.trees.commit(base[0], layers[::-1], task_records)
        assert counted(outcome) == changed_counts(base[1], after)
        return self.checked(tree, after)

    @rule(
        target=results,
        base=results,
        source=results,
        dest=results,
        strategy=st.sampled_from(Strategy),
        task_records=task_sizes,
    )
    def merge(
        self,
        base: tuple[MetaRange, Contents],
        source: tuple[MetaRange, Contents],
        dest: tuple[MetaRange, Contents],
        strategy: Strategy,
        task_records: int,
    ) -> tuple[MetaRange, Contents]:
        winner = source if strategy is Strategy.SOURCE_WINS else dest
        after, conflicts = oracle.merged(base[1], source[1], dest[1], winner[1])
        outcome = self.trees.merge(base[0], source[0], dest[0], strategy, task_records)
        assert outcome.conflict_count == len(conflicts)
        return self.checked(self.trees.finish(outcome.pieces), after)

    @rule(base=results, source=results, dest=results, task_records=task_sizes)
    def preview(
        self,
        base: tuple[MetaRange, Contents],
        source: tuple[MetaRange, Contents],
        dest: tuple[MetaRange, Contents],
        task_records: int,
    ) -> None:
        _, conflicts = oracle.merged(base[1], source[1], dest[1], dest[1])
        outcome = self.trees.merge(base[0], source[0], dest[0], None, task_records)
        assert [each.key for each in outcome.conflicts] == conflicts
        assert outcome.conflict_count == len(conflicts)

    @rule(target=results, base=results, replacement=results, within=bounds, task_records=task_sizes)
    def replace(
        self,
        base: tuple[MetaRange, Contents],
        replacement: tuple[MetaRange, Contents],
        within: Interval,
        task_records: int,
    ) -> tuple[MetaRange, Contents]:
        inside = {key: each for key, each in replacement[1].items() if key in within}
        outside = {key: each for key, each in base[1].items() if key not in within}
        tree = self.trees.replace(base[0], self.trees.write(inside), within, task_records)
        return self.checked(tree, outside | inside)

    @rule(tree=consumes(results))
    def forget(self, tree: tuple[MetaRange, Contents]) -> None:
        """Bound the number of trees, so that their descendants meet."""


def test_any_history_of_equal_records_has_one_tree_id(runner: Runner) -> None:
    state_machine_settings = settings(max_examples=50, stateful_step_count=14)
    run_state_machine_as_test(partial(Histories, runner), settings=state_machine_settings)


# --- error-prone edits ----------------------------------------------------------------------------

Edit = Callable[[Contents, int], Changes]


def natural_ends(pairs: Contents, range_records: int) -> list[bytes]:
    return [
        key for key, each in sorted(pairs.items()) if oracle.ends_range(key, each, range_records)
    ]


def keys_at(numbers: Sequence[int]) -> list[bytes]:
    return [b"k%04d" % number for number in numbers]


EDITS: dict[str, Edit] = {
    "delete every range end": lambda pairs, size: dict.fromkeys(natural_ends(pairs, size)),
    "delete the first range": lambda pairs, size: dict.fromkeys(
        [key for key, _ in oracle.cut(pairs, size)[0]]
    ),
    "delete the last range": lambda pairs, size: dict.fromkeys(
        [key for key, _ in oracle.cut(pairs, size)[-1]]
    ),
    "delete all": lambda pairs, size: dict.fromkeys(pairs),
    "delete all but one": lambda pairs, size: dict.fromkeys(sorted(pairs)[1:]),
    "append": lambda pairs, size: dict.fromkeys(keys_at(range(9000, 9050)), b"A"),
    "append one": lambda pairs, size: {b"z": b"A"},
    "prepend one": lambda pairs, size: {b"a": b"A"},
    "a long stretch without an end": lambda pairs, size: {
        key: oracle.identity_of(key, size, end=False, other_than=())
        for key in keys_at(range(100, 150))
    },
    "an end in each range": lambda pairs, size: {
        each[0][0]: oracle.identity_of(each[0][0], size, end=True, other_than=())
        for each in oracle.cut(pairs, size)
    },
    "one record into a capped stretch": lambda pairs, size: {b"k0000x": b"B"},
    "nothing": lambda pairs, size: {},
}


@for_each("task_records", [1, 1_000_000])
@for_each("as_run", [False, True])
@for_each("edit", EDITS)
def test_edits_at_range_ends_give_the_expected_tree(
    edit: str, as_run: bool, task_records: int
) -> None:
    size = 4
    capped = {
        key: oracle.identity_of(key, size, end=False, other_than=()) for key in keys_at(range(70))
    }
    mixed = dict.fromkeys(keys_at(range(70, 200)), b"A")
    pairs = capped | mixed
    staged = EDITS[edit](pairs, size)
    with open_trees(size) as trees:
        base = trees.write(pairs)
        layer: Any = trees.run(staged) if as_run else trees.rows(staged)
        tree, _ = trees.commit(base, [layer], task_records)
        after = oracle.changed(pairs, staged)
        assert tree.id == oracle.meta_range_id(after, size)
        assert trees.contents(tree) == after
        # A merge reverts the edits.
        reverted = trees.merge(tree, base, tree, Strategy.DEST_WINS, task_records)
        assert trees.finish(reverted.pieces) == base
