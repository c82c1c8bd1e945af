"""Rows are computed as they are asked for: whoever wants only some pays only for some."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Lake, Repository
from sparklake.graveler.keys import Interval
from sparklake.graveler.ranges import overlapping
from sparklake.graveler.sstable.range_files import read_together
from tests.support.lakes import put_sizes, stage_sizes

PATHS = [f"{folder}/{number:04}" for folder in "abcd" for number in range(500)]


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    made = small_lake.create_repository("lake", str(folder / "lake"), range_records=4)
    stage_sizes(made.branch("main"), dict.fromkeys(PATHS, 1))
    made.branch("main").commit("base")
    return made


def test_the_first_rows_take_one_group_of_ranges(repo: Repository) -> None:
    ranges = repo.tree("main").ranges
    first = next(read_together(ranges))
    assert len(first) < len(ranges) / 4
    with recorded_reads() as reads:
        shown = list(islice(repo.objects("main"), 10))
    assert [each.path for each in shown] == PATHS[:10]
    assert set(reads) <= {each.id for each in first}


def test_the_first_rows_of_a_dirty_branch_take_one_group_of_each_side(repo: Repository) -> None:
    put_sizes(repo.branch("main"), {PATHS[3]: None, PATHS[-1]: 2})
    stage_sizes(repo.branch("main"), dict.fromkeys(PATHS[5::2], 3))
    groups = [next(read_together(repo.tree("main").ranges))]
    for piece in repo.objects("main").plan.streams[1:]:
        groups.extend(islice(read_together(piece.ranges), 1))
    with recorded_reads() as reads:
        shown = list(islice(repo.objects("main"), 10))
    assert [each.path for each in shown] == [*PATHS[:3], *PATHS[4:11]]
    assert set(reads) <= {each.id for group in groups for each in group}


def test_rows_within_an_interval_are_read_from_its_ranges(repo: Repository) -> None:
    within = Interval(b"b/0100", b"b/0120")
    rows = repo.objects("main").within(within)
    needed = overlapping(repo.tree("main").ranges, within)
    assert rows.explain().records == sum(each.count for each in needed)
    with recorded_reads() as reads:
        assert [each.path for each in rows] == [f"b/{number:04}" for number in range(100, 120)]
    assert reads == [each.id for each in needed]
