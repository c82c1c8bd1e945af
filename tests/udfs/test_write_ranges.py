"""Task bodies that write, and their messages to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest import mock

import pytest

from sparklake.errors import InvalidRowsError
from sparklake.graveler.algebra.changes import ChangeCounts, Conflict
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.planning.packing import Task, TaskPiece, pack_tasks
from sparklake.graveler.planning.plan import OpenPiece, SideStream, plan_merge
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import WrittenRange
from sparklake.rows.merges import ConflictCountResult, ConflictResult
from sparklake.rows.records import record_batch
from sparklake.rows.results import (
    ChangesResult,
    PieceResult,
    TaskResult,
    decode_results,
    encode_results,
)
from sparklake.strategies import judging
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.tasks import TASK_SCHEMA, encode_tasks, plan_tasks
from sparklake.udfs.write_ranges import apply_body, merge_body, run_body
from tests.support.oracle import Contents
from tests.support.trees import Trees, open_trees, records_of

PAIRS: Contents = {b"k%03d" % number: b"A" for number in range(200)}
EACH_TENTH = list(PAIRS)[::10]
SOURCE = PAIRS | dict.fromkeys(EACH_TENTH, b"S")
DEST = PAIRS | dict.fromkeys(EACH_TENTH, b"D")


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(4) as opened:
        yield opened


def run_merge(trees: Trees, strategy: Strategy | None, task_records: int) -> list[TaskResult]:
    sides = [trees.write(each).ranges for each in (PAIRS, SOURCE, DEST)]
    tasks = encode_tasks(pack_tasks(plan_merge(*sides), task_records))
    body = partial(merge_body, trees.workspace, Resolution(strategy))
    return list(decode_results(trees.runner.collect(body, tasks)))


# --- merges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task_records", [1, 1_000_000])
@pytest.mark.parametrize("strategy", [None, *Strategy])
def test_every_conflict_is_counted(
    trees: Trees, strategy: Strategy | None, task_records: int
) -> None:
    results = run_merge(trees, strategy, task_records)
    counts = [each.conflicts for each in results if isinstance(each, ConflictCountResult)]
    assert sum(counts) == len(EACH_TENTH)
    listed = [each.conflict.key for each in results if isinstance(each, ConflictResult)]
    assert listed == ([] if strategy else EACH_TENTH)


def test_only_the_first_conflicts_of_a_piece_are_listed(trees: Trees) -> None:
    one_piece = trees.with_range_records(1000)
    with mock.patch.object(judging, "MAX_CONFLICTS_REPORTED", 3):
        outcome = one_piece.merge(*map(one_piece.write, (PAIRS, SOURCE, DEST)), None)
    assert [each.key for each in outcome.conflicts] == EACH_TENTH[:3]
    assert outcome.conflict_count == len(EACH_TENTH)


def test_a_repeated_merge_gives_the_same_result(trees: Trees) -> None:
    first = run_merge(trees, Strategy.SOURCE_WINS, 50)
    names = trees.names()
    assert run_merge(trees, Strategy.SOURCE_WINS, 50) == first
    assert trees.names() == names


# --- runs -----------------------------------------------------------------------------------------


def test_a_repeated_run_gives_the_same_result(trees: Trees) -> None:
    batches = [record_batch(records_of(PAIRS))]
    first = list(decode_results(run_body(trees.workspace, batches)))
    names = trees.names()
    assert list(decode_results(run_body(trees.workspace, batches))) == first
    assert trees.names() == names == {each.info.id for one in first for each in one.written}


def test_an_empty_run_writes_nothing(trees: Trees) -> None:
    for batches in ([], [record_batch([])]):
        (result,) = decode_results(run_body(trees.workspace, batches))
        assert result == PieceResult(0, ())
    assert trees.names() == set()


def test_a_duplicate_key_is_reported(trees: Trees) -> None:
    records = records_of(PAIRS)
    batches = [record_batch(records[:100]), record_batch(records[99:])]
    with pytest.raises(InvalidRowsError, match="k099"):
        list(run_body(trees.workspace, batches))
    assert trees.names() == set()


# --- what travels ---------------------------------------------------------------------------------

ONE = RangeInfo(RangeId("1" * 64), b"\x00a", b"\xffz", 3, 400)
OTHER = RangeInfo(RangeId("2" * 64), b"a", b"a", 1, 2)


def test_tasks_round_trip() -> None:
    tasks = [
        Task(
            (
                TaskPiece(
                    0,
                    OpenPiece(
                        Interval(), (SideStream((ONE, OTHER)), SideStream(), SideStream((ONE,)))
                    ),
                ),
                TaskPiece(
                    7, OpenPiece(Interval(b"\xff", b"\xff\0"), (SideStream(rows=((b"k", b"\0"),)),))
                ),
            )
        ),
        Task((TaskPiece(9, OpenPiece(Interval(b"a", None), ())),)),
    ]
    table = encode_tasks(tasks)
    assert table.schema == TASK_SCHEMA
    assert table.column("position").to_pylist() == [0, 1]
    assert list(plan_tasks(table.to_batches())) == tasks
    assert encode_tasks([]).num_rows == 0


def test_results_round_trip() -> None:
    results: list[TaskResult] = [
        PieceResult(3, (WrittenRange(ONE, closed=True),)),
        ChangesResult(ChangeCounts(1, 2, 3)),
        PieceResult(4, (WrittenRange(OTHER, closed=False),)),
        ConflictCountResult(1 << 40),
        ConflictResult(Conflict(b"k", None, b"\xff", b"")),
    ]
    assert list(decode_results([encode_results(results), encode_results([])])) == results


def test_change_counts_of_pieces_are_added(trees: Trees) -> None:
    tree = trees.write(PAIRS)
    changes: dict[bytes, bytes | None] = {
        **dict.fromkeys(EACH_TENTH, b"new"),
        **{key + b"-added": b"A" for key in EACH_TENTH[:7]},
        **dict.fromkeys(list(PAIRS)[5::20]),
    }
    for task_records in (1, 1_000_000):
        _, outcome = trees.commit(tree, [trees.rows(changes)], task_records)
        assert outcome.counts == ChangeCounts(7, 10, len(EACH_TENTH))
        assert outcome.counts.total == 17 + len(EACH_TENTH)


def test_bodies_without_tasks_return_nothing(trees: Trees) -> None:
    assert list(apply_body(trees.workspace, [])) == []
    assert list(merge_body(trees.workspace, Resolution(), encode_tasks([]).to_batches())) == []
