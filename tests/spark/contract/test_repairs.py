"""Repairs whose checks and searches are Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.testing.lakes import commit_all, contents, namespace_of
from sparklake.verbs.repairs.steps import RepairAction

pytestmark = pytest.mark.spark


@pytest.mark.system
def test_tasks_find_what_replaces_a_loss(repo: Repository) -> None:
    main = repo.branch("main")
    main.put_many({f"k/{number:03}": b"%d" % (number % 20) for number in range(60)})
    main.commit("objects")
    commit_all(main, {"k/001": b"changed"}, "a change")
    commit_all(main, {"k/000": b"changed", "k/002": None, "k/003": b"changed"}, "its neighbours")
    before = {ref: contents(repo, ref) for ref in ("main", "main~1", "main~2")}
    lost = [Path(repo.stat("main", f"k/{number:03}").address[7:]) for number in (1, 30, 59)]
    for each in lost:
        each.unlink()
    tree = repo._context.tree(repo.resolve("main~1"))
    (namespace_of(repo) / "_lakefs" / tree.ranges[0].id).unlink()
    report = repo.repair()
    assert report.check.is_healthy, report
    assert {each.step.action for each in report.results} == {
        RepairAction.COPY_OBJECT,
        RepairAction.REBUILD_RANGE,
    }
    assert {ref: contents(repo, ref) for ref in before} == before
    assert all(each.exists() for each in lost)
