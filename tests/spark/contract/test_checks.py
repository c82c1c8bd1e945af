"""Checks as Spark jobs, on both kinds of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import namespace_of

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("small_tasks")
def test_tasks_find_faults(repo: Repository) -> None:
    main = repo.branch("main")
    for number in range(150):
        main.put(f"k/{number:03}", b"%d" % number)
    main.commit("objects")
    healthy = repo.check("content")
    assert healthy.kinds == {}
    assert (healthy.counts.records, healthy.counts.contents) == (150, 150)

    Path(repo.stat("main", "k/007").address.removeprefix("file://")).unlink()
    ranges = repo._context.tree(repo.resolve("main")).ranges
    (namespace_of(repo) / "_lakefs" / ranges[-1].id).write_bytes(b"no table")
    report = repo.check("content")
    assert report.kinds == {FindingKind.OBJECT_MISSING: 1, FindingKind.RANGE_DAMAGED: 1}
    assert {each.branches for each in report.findings} == {("main",)}
