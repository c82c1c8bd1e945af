"""Execution of plans: reads, writes and reported counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.counting import recorded_reads
from sparklake.engine import threads
from sparklake.engine.base import Runner
from sparklake.engine.execution import run_plan, write_run
from sparklake.engine.threads import LocalRunner
from sparklake.errors import CorruptFileError, InvalidRowsError, LostResultError, MissingFileError
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.keys import EVERYTHING, Interval, prefix_interval
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.plan import SideStream, plan_diff
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.sstable.range_files import NO_TREE
from sparklake.rows.records import record_batch
from sparklake.udfs.write_ranges import apply_body
from tests.support import oracle
from tests.support.oracle import Changes, Contents
from tests.support.trees import Trees, open_trees, staged_records, touched

if TYPE_CHECKING:
    import pyarrow as pa

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


def neighbours(tree: MetaRange) -> tuple[RangeInfo, RangeInfo]:
    """Return two ranges in the middle, of several records, that fit into one range."""
    return next(
        (one, other)
        for one, other in list(pairwise(tree.ranges))[20:]
        if one.count >= 3 and one.count + other.count < 4 * SIZE and other is not tree.ranges[-1]
    )


def commit(trees: Trees, tree: MetaRange, changes: Changes) -> tuple[MetaRange, list[str]]:
    """Commit one layer of rows, and return the tree and the ids read."""
    with recorded_reads() as reads:
        after, _ = trees.commit(tree, [trees.rows(changes)])
    assert after.id == oracle.meta_range_id(oracle.changed(PAIRS, changes), SIZE)
    return after, reads


# --- work follows the difference ------------------------------------------------------------------


def test_a_commit_of_one_key_reads_and_writes_one_range(trees: Trees, tree: MetaRange) -> None:
    here, _ = neighbours(tree)
    identity = oracle.identity_of(here.min_key, SIZE, end=False, other_than=PAIRS.values())
    before = trees.names()
    after, reads = commit(trees, tree, {here.min_key: identity})
    assert reads == [here.id]
    assert len(trees.names() - before) == 2, "a range and the metarange"
    assert len({each.id for each in after.ranges} - {each.id for each in tree.ranges}) == 1


def test_a_new_key_reads_the_next_range(trees: Trees, tree: MetaRange) -> None:
    here, following = neighbours(tree)
    key = here.max_key + b"-new"
    identity = oracle.identity_of(key, SIZE, end=False, other_than=())
    _, reads = commit(trees, tree, {key: identity})
    assert reads == [following.id]


def test_a_new_range_end_splits_a_range_without_another_read(trees: Trees, tree: MetaRange) -> None:
    here, _ = neighbours(tree)
    identity = oracle.identity_of(here.min_key, SIZE, end=True, other_than=())
    after, reads = commit(trees, tree, {here.min_key: identity})
    assert reads == [here.id]
    assert len(after.ranges) == len(tree.ranges) + 1


@pytest.mark.parametrize("removed", [True, False], ids=["deleted", "changed"])
def test_a_lost_range_end_reads_the_neighbour(trees: Trees, tree: MetaRange, removed: bool) -> None:
    here, following = neighbours(tree)
    no_end = oracle.identity_of(here.max_key, SIZE, end=False, other_than=())
    before = trees.names()
    after, reads = commit(trees, tree, {here.max_key: None if removed else no_end})
    open_piece = reads[1]
    assert reads == [here.id, open_piece, following.id]
    assert open_piece not in before
    assert len(after.ranges) == len(tree.ranges) - 1
    assert len({each.id for each in after.ranges} - {each.id for each in tree.ranges}) == 1


def test_a_deleted_range_reads_no_neighbour(trees: Trees, tree: MetaRange) -> None:
    here, _ = neighbours(tree)
    deletions: Changes = {key: None for key in PAIRS if here.min_key <= key <= here.max_key}
    after, reads = commit(trees, tree, deletions)
    assert reads == [here.id]
    assert [*after.ranges] == [each for each in tree.ranges if each != here]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {b"k0100": PAIRS[b"k0100"]},
        {b"missing": None},
        {b"0": None, b"k0100-": None, b"k0300": PAIRS[b"k0300"]},
    ],
    ids=["none", "an equal one", "a tombstone of nothing", "several"],
)
def test_changes_without_effect_write_nothing(
    trees: Trees, tree: MetaRange, changes: Changes
) -> None:
    before = trees.names()
    after, outcome = trees.commit(tree, [trees.rows(changes)])
    assert after == tree
    assert trees.names() == before
    assert outcome.counts == ChangeCounts()


def test_an_append_reads_only_the_last_range(trees: Trees, tree: MetaRange) -> None:
    _, reads = commit(trees, tree, {b"z": b"A", b"zz": b"B"})
    assert reads == [tree.ranges[-1].id]


def test_a_first_commit_reads_and_writes_nothing(trees: Trees) -> None:
    run = trees.run(dict(PAIRS))
    before = trees.names()
    with recorded_reads() as reads:
        after, outcome = trees.commit(NO_TREE, [run])
    assert reads == []
    assert trees.names() == before
    assert after == run.tree
    assert outcome.counts == ChangeCounts(added=len(PAIRS))


def test_a_diff_of_equal_trees_reads_nothing(trees: Trees, tree: MetaRange) -> None:
    again, _ = trees.commit(trees.write(dict(list(PAIRS.items())[:300])), [trees.rows(PAIRS)])
    assert again == tree
    assert plan_diff(tree.ranges, again.ranges).opened == ()


def test_a_replaced_prefix_reads_only_ranges_across_its_bounds(
    trees: Trees, tree: MetaRange
) -> None:
    within = prefix_interval(b"k02")
    straddling = [
        each.id
        for each in tree.ranges
        if (each.min_key in within) != (each.max_key in within)
        or each.min_key < within.start <= each.max_key
    ]
    assert straddling
    replacement = {b"k02-%02d" % number: b"A" for number in range(40)}
    imported = trees.write(replacement)
    with recorded_reads() as reads:
        after = trees.replace(tree, imported, within)
    expected = {key: each for key, each in PAIRS.items() if key not in within} | replacement
    assert after.id == oracle.meta_range_id(expected, SIZE)
    assert {*straddling} <= {*reads}
    assert len(reads) <= 3 * len(straddling) + 2
    with recorded_reads() as reads:
        assert trees.replace(tree, imported, EVERYTHING) == imported
    assert reads == []


@pytest.mark.parametrize("task_records", [1, 1_000_000])
def test_an_interval_within_one_range_is_replaced(
    trees: Trees, tree: MetaRange, task_records: int
) -> None:
    here, _ = neighbours(tree)
    middle = [key for key in PAIRS if here.min_key < key < here.max_key]
    within = Interval(middle[0], here.max_key)
    expected = {key: each for key, each in PAIRS.items() if key not in within}
    after = trees.replace(tree, NO_TREE, within, task_records)
    assert len(expected) == len(PAIRS) - len(middle)
    assert after.id == oracle.meta_range_id(expected, SIZE)
    assert trees.contents(after) == expected


# --- running again --------------------------------------------------------------------------------


def test_a_body_that_runs_twice_writes_each_file_once(trees: Trees, tree: MetaRange) -> None:
    changes: Changes = dict.fromkeys(list(PAIRS)[::50], b"new")
    layer = trees.rows(changes)
    plan = plan_apply(tree.ranges, [SideStream(rows=layer.records)], touched([layer]))

    class Twice(LocalRunner):
        def collect(self, body, work: pa.Table) -> Iterator[pa.RecordBatch]:
            first = list(super().collect(body, work))
            names = trees.names()
            assert list(super().collect(body, work)) == first
            assert trees.names() == names
            return iter(first)

    outcome = run_plan(Twice(), partial(apply_body, trees.workspace), plan, 20)
    assert trees.contents(trees.finish(outcome.pieces)) == oracle.changed(PAIRS, changes)


def test_finishing_twice_gives_one_tree(trees: Trees) -> None:
    pieces = trees.write_pieces(staged_records(dict(PAIRS)), [100, 101, 333])
    first = trees.finish(pieces)
    names = trees.names()
    assert trees.finish(pieces) == first
    assert trees.names() == names
    assert first.id == oracle.meta_range_id(PAIRS, SIZE)


def test_no_temporary_file_remains(trees: Trees, tree: MetaRange) -> None:
    commit(trees, tree, dict.fromkeys(list(PAIRS)[::7], None))
    assert list(trees.scratch.iterdir()) == []


@pytest.mark.parametrize("other", [0, 599])
def test_a_duplicate_key_in_two_slices_is_reported(
    trees: Trees, runner: Runner, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_SLICE_BYTES", 3000)
    monkeypatch.setattr(threads, "_MIN_SHARE_BYTES", 3000)
    records = staged_records(dict(PAIRS))
    batches = [record_batch(records[at : at + 50]) for at in range(0, 600, 50)]
    batches.append(record_batch([records[other]]))
    with pytest.raises(InvalidRowsError, match=records[other][0].decode()):
        write_run(runner, trees.workspace, iter, batches)


# --- bad input ------------------------------------------------------------------------------------


def test_a_missing_range_is_reported(trees: Trees, tree: MetaRange) -> None:
    here, _ = neighbours(tree)
    trees.store.delete(f"_lakefs/{here.id}")
    with pytest.raises(MissingFileError, match=here.id):
        trees.commit(tree, [trees.rows({here.min_key: b"new"})])


def test_a_corrupt_range_is_reported(trees: Trees, tree: MetaRange) -> None:
    here, _ = neighbours(tree)
    trees.store.delete(f"_lakefs/{here.id}")
    trees.store.put_if_absent(f"_lakefs/{here.id}", b"nonsense")
    with pytest.raises(CorruptFileError, match=here.id):
        trees.commit(tree, [trees.rows({here.min_key: b"new"})])


def test_unordered_rows_make_a_sorted_run(
    trees: Trees, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_SLICE_BYTES", 3000)
    monkeypatch.setattr(threads, "_MIN_SHARE_BYTES", 3000)
    records = staged_records(dict(PAIRS))
    shuffled = [record_batch(records[at::7]) for at in range(6, -1, -1)]
    pieces = write_run(runner, trees.workspace, iter, shuffled)
    assert trees.finish(pieces).id == oracle.meta_range_id(PAIRS, SIZE)


def test_a_duplicate_key_is_reported_and_nothing_is_written(trees: Trees, runner: Runner) -> None:
    records = staged_records(dict(PAIRS))
    batches = [record_batch(records), record_batch(records[300:301])]
    with pytest.raises(InvalidRowsError, match="k0300"):
        write_run(runner, trees.workspace, iter, batches)
    assert trees.names() == set()


def test_no_row_makes_no_run(trees: Trees, runner: Runner) -> None:
    pieces = write_run(runner, trees.workspace, iter, [])
    assert pieces == []
    assert trees.finish(pieces) == NO_TREE


def test_a_lost_task_result_is_an_error(trees: Trees) -> None:
    """An engine that loses a task result must not lose its records."""

    class Forgetful(LocalRunner):
        def collect(self, body: Any, work: Any) -> Iterator[Any]:
            return islice(super().collect(body, work), 1, None)

    tree = trees.write({b"k%02d" % at: b"A" for at in range(40)})
    layer = trees.rows({b"k05": b"B", b"k35": b"B"})
    plan = plan_apply(tree.ranges, [SideStream(rows=layer.records)], [Interval()])
    with pytest.raises(LostResultError):
        run_plan(Forgetful(), partial(apply_body, trees.workspace), plan, task_records=10)
