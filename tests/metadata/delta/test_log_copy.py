"""Which files of a log are copied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sparklake.metadata.delta.delta_commits import is_blind_append, lets_append
from sparklake.metadata.delta.file_names import (
    LogListing,
    commit_name,
    files_of_version,
    log_listing,
)
from sparklake.metadata.delta.rewrite import rewritten_actions


def checkpoint_name(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def listing(commits: list[int], checkpoints: list[int]) -> LogListing[str]:
    names = [*map(commit_name, commits), *map(checkpoint_name, checkpoints), "_last_checkpoint"]
    return log_listing(zip(names, names, strict=True))


@pytest.mark.parametrize(
    ("commits", "checkpoints", "latest", "recent", "history"),
    [
        ([], [], -1, (None, []), (None, [])),
        ([0, 1, 2], [], 2, (None, [0, 1, 2]), (None, [0, 1, 2])),
        ([0, 1, 2], [1], 2, (1, [1, 2]), (None, [0, 1, 2])),
        ([1, 2, 3, 4], [1, 3], 4, (3, [3, 4]), (1, [1, 2, 3, 4])),
        ([3], [2], 3, (2, [3]), (2, [3])),
        ([], [2], 2, (2, []), (2, [])),
        ([2, 4], [1, 3], 4, (3, [4]), (3, [4])),
    ],
)
def test_only_the_files_of_a_version_are_copied(
    commits: list[int],
    checkpoints: list[int],
    latest: int,
    recent: tuple[int | None, list[int]],
    history: tuple[int | None, list[int]],
) -> None:
    for everything, (checkpoint, read) in ((False, recent), (True, history)):
        files = files_of_version(listing(commits, checkpoints), history=everything)
        assert (files.version, files.missing) == (latest, None)
        assert files.checkpoint == (() if checkpoint is None else (checkpoint_name(checkpoint),))
        assert list(files.commits) == [commit_name(each) for each in read]
        assert files.names == (*files.checkpoint, *files.commits)
    assert files_of_version(listing([0, 1, 2, 3], [1]), 2).commits == (
        commit_name(1),
        commit_name(2),
    )
    assert files_of_version(listing([0, 1, 2, 3], [3]), 2).checkpoint == ()


@pytest.mark.parametrize(
    ("commits", "checkpoints", "missing"),
    [([1], [], 0), ([0, 2], [], 1), ([0, 3], [1], 2), ([3], [0], 1)],
)
def test_a_log_with_gaps_is_not_copied(
    commits: list[int], checkpoints: list[int], missing: int
) -> None:
    for history in (False, True):
        files = files_of_version(listing(commits, checkpoints), history=history)
        assert (files.missing, files.names) == (missing if not history else files.missing, ())
        assert files.missing is not None


def elsewhere(files: Sequence[dict[str, Any]]) -> None:
    for fields in files:
        fields["path"] = f"there/{fields['path']}"


def lines(*actions: Mapping[str, Any]) -> bytes:
    return "\n".join(map(json.dumps, actions)).encode()


INLINE = {"storageType": "i", "pathOrInlineDv": "x"}


def test_only_file_paths_are_rewritten() -> None:
    body = lines(
        {"commitInfo": {"path": "kept"}},
        {"add": {"path": "a", "deletionVector": INLINE}, "remove": None},
        {"remove": {"path": "b"}},
        {"cdc": {"path": "c"}},
    )
    assert rewritten_actions(body, "it", elsewhere) == [
        {"commitInfo": {"path": "kept"}},
        {"add": {"path": "there/a", "deletionVector": INLINE}, "remove": None},
        {"remove": {"path": "there/b"}},
        {"cdc": {"path": "there/c"}},
    ]


APPEND = [{"commitInfo": {"isBlindAppend": True}}, {"add": {"path": "a"}}]


@pytest.mark.parametrize(
    ("more", "is_blind"),
    [
        ([], True),
        ([{"txn": {"appId": "a"}}], True),
        ([{"remove": None}], True),
        ([{"remove": {"path": "b"}}], False),
        ([{"metaData": {}}], False),
        ([{"add": {"path": "b", "baseRowId": 0}}], False),
        ([{"commitInfo": {"isBlindAppend": True}}], False),
    ],
)
def test_a_blind_append_contains_only_adds(more: list[dict[str, Any]], is_blind: bool) -> None:
    assert is_blind_append([*APPEND, *more]) is is_blind


@pytest.mark.parametrize(
    ("theirs", "lets"),
    [
        ({"remove": {"path": "b"}}, True),
        ({"txn": {"appId": "other"}}, True),
        ({"txn": {"appId": "mine"}}, False),
        ({"metaData": {}}, False),
        ({"protocol": {}}, False),
    ],
)
def test_an_append_may_follow_commits_without_a_schema_change(
    theirs: dict[str, Any], lets: bool
) -> None:
    assert lets_append([theirs], [*APPEND, {"txn": {"appId": "mine"}}]) is lets
