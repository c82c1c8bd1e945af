"""Commits dropped by a merge that takes one side's table as a whole."""

from __future__ import annotations

import json
from typing import Any

from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.union.dropped import describe_dropped
from sparklake.metadata.union.dropped import DroppedCommits
from tests.support.written_tables import add, marked, remove


def commit(version: int, *actions: Any) -> DeltaCommit:
    return DeltaCommit(version, actions)


def rows(number: int) -> dict[str, Any]:
    return {"stats": json.dumps({"numRecords": number, "minValues": {}})}


BASE = (commit(1, add("base", **rows(9))),)
SHARED = commit(2, add("shared", **rows(9)))


def dropped(*own: DeltaCommit) -> DroppedCommits:
    return describe_dropped("dest", (*BASE, SHARED, *own), (*BASE, SHARED), BASE)


def test_only_commits_missing_from_other_sides_are_dropped() -> None:
    assert dropped() == DroppedCommits("dest", 0, 0, 0, 0)
    summary = dropped(
        commit(3, add("a", **rows(2))), commit(4, add("b", **rows(3)), remove("base"))
    )
    assert summary == DroppedCommits("dest", 2, 2, 5, 1)
    assert str(summary) == "2 commits of dest (added 2 files with 5 rows, removed 1 file)"


def test_an_added_and_removed_file_is_not_counted() -> None:
    summary = dropped(commit(3, add("a", **rows(2))), commit(4, remove("a"), add("b", **rows(1))))
    assert summary == DroppedCommits("dest", 2, 1, 1, 0)
    assert str(summary) == "2 commits of dest (added 1 file with 1 row)"


def test_rows_in_a_deletion_vector_are_not_counted() -> None:
    summary = dropped(commit(3, remove("base"), add("base", **rows(9), **marked("x"))))
    assert summary == DroppedCommits("dest", 1, 1, 8, 1)


def test_files_without_statistics_have_unknown_rows() -> None:
    for stats in ({}, {"stats": None}, {"stats": "{"}, {"stats": '{"numRecords": "9"}'}):
        summary = dropped(commit(3, add("a", **stats), add("b", **rows(3))))
        assert summary.added_rows is None
        assert str(summary) == "1 commit of dest (added 2 files with unknown rows)"
