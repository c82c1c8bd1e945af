"""A check that was interrupted continues, and reads nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Engine, Lake, Repository
from sparklake.engine.choice import Runners
from sparklake.engine.threads import LocalRunner
from sparklake.errors import InvalidInputError
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import TESTER, commit_all, namespace_of
from sparklake.testing.memory import MemoryRefStore

TASK_RECORDS = 10


class Interruption:
    """A progress that interrupts after some shares."""

    def __init__(self) -> None:
        self.left = -1
        self.totals: list[int] = []

    def begin(self, ranges: int) -> None:
        self.totals.append(ranges)

    def advance(self, ranges: int) -> None:
        if ranges:
            self.left -= ranges
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.fixture
def progress() -> Interruption:
    return Interruption()


@pytest.fixture
def repo(folder: Path, progress: Interruption, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Is a repository whose ranges are checked by ten tasks and more."""
    monkeypatch.setattr(LocalRunner, "task_records", lambda *_: TASK_RECORDS)
    lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL, workers=1, progress=progress), TESTER)
    made = lake.create_repository("lake", str(folder / "namespace"), range_records=4)
    commit_all(made.branch("main"), {f"k/{number:03}": b"x" for number in range(100)}, "base")
    return made


def begun_checks(repo: Repository) -> Sequence[str]:
    return [each.name for each in (namespace_of(repo) / "_sparklake/checks/open").iterdir()]


@pytest.mark.parametrize("shares", range(1, 10, 2))
def test_an_interrupted_check_continues(
    repo: Repository, progress: Interruption, shares: int
) -> None:
    range_ids = {each.id for each in repo._context.tree(repo.resolve("main")).ranges}
    missing = sorted(range_ids)[0]
    (namespace_of(repo) / "_lakefs" / missing).unlink()
    progress.left = shares
    with recorded_reads() as first, pytest.raises(KeyboardInterrupt):
        repo.check("content")
    (check_id,) = begun_checks(repo)
    progress.left = -1
    with recorded_reads() as rest:
        report = repo.check("content", resume=check_id)
    assert report.id == check_id
    assert report.kinds == {FindingKind.RANGE_MISSING: 1}
    assert report.counts.contents == report.counts.objects > 90
    # Each range is verified in one of the two attempts, and read again for the change summary.
    read = [each for each in (*first, *rest) if each in range_ids]
    assert sorted(set(read)) == sorted(range_ids)
    # Three more for the search for tables that a merge harmed.
    assert len(read) <= 2 * len(range_ids) + TASK_RECORDS + 3


def test_an_unfinished_check_is_a_leftover(repo: Repository, progress: Interruption) -> None:
    progress.left = 3
    with pytest.raises(KeyboardInterrupt):
        repo.check()
    (check_id,) = begun_checks(repo)
    progress.left = -1
    report = repo.check("refs")
    assert [each.subject for each in report.leftovers] == [check_id]
    with pytest.raises(InvalidInputError, match="the level objects"):
        repo.check("content", resume=check_id)
    assert repo.check(resume=check_id).is_healthy
    assert repo.check("refs").kinds == {}


def test_progress_counts_shares(repo: Repository, progress: Interruption) -> None:
    repo.check("trees")
    trees, ranges = progress.totals[-2:]
    assert (trees, ranges) == (1, 7)
