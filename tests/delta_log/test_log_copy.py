"""What of a log is copied, and what is not."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake.delta_log.delta_commits import is_blind_append, lets_append
from sparklake.delta_log.file_names import commit_name
from sparklake.delta_log.rewrite import copied_actions, copied_checkpoint, files_to_read
from sparklake.errors import CorruptFileError, InvalidInputError


def checkpoint_name(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


@pytest.mark.parametrize(
    ("commits", "checkpoints", "latest", "checkpoint", "read"),
    [
        ([], [], -1, None, []),
        ([0, 1, 2], [], 2, None, [0, 1, 2]),
        # As long as there are all commits, no checkpoint need be understood.
        ([0, 1, 2], [1], 2, None, [0, 1, 2]),
        ([1, 2, 3], [1, 2], 3, 2, [2, 3]),
        ([3], [2], 3, 2, [3]),
        ([], [2], 2, 2, []),
    ],
)
def test_the_files_that_say_what_is_in_a_table(
    commits: list[int], checkpoints: list[int], latest: int, checkpoint: int | None, read: list[int]
) -> None:
    names = [*map(commit_name, commits), *map(checkpoint_name, checkpoints), "_last_checkpoint"]
    found = files_to_read(names, "t/")
    assert found.version == latest
    assert found.checkpoint == (None if checkpoint is None else checkpoint_name(checkpoint))
    assert list(found.commits) == [commit_name(each) for each in read]
    assert found.names == (*filter(None, [found.checkpoint]), *found.commits)


@pytest.mark.parametrize(
    ("commits", "checkpoints"), [([1], []), ([0, 2], []), ([0, 3], [1]), ([], [0])]
)
def test_a_log_with_gaps_is_not_copied(commits: list[int], checkpoints: list[int]) -> None:
    names = [*map(commit_name, commits), *map(checkpoint_name, checkpoints)]
    with pytest.raises(InvalidInputError, match=r"the log t/_delta_log/ has neither"):
        files_to_read(names, "t/")


def elsewhere(files: Sequence[dict[str, Any]]) -> None:
    for said in files:
        said["path"] = f"there/{said['path']}"


def lines(*actions: Mapping[str, Any]) -> bytes:
    return "\n".join(map(json.dumps, actions)).encode()


INLINE = {"storageType": "i", "pathOrInlineDv": "x"}


def test_every_file_gets_another_path_and_nothing_else_changes() -> None:
    body = lines(
        {"commitInfo": {"path": "kept"}},
        {"add": {"path": "a", "deletionVector": INLINE}, "remove": None},
        {"remove": {"path": "b"}},
        {"cdc": {"path": "c"}},
    )
    assert copied_actions(body, "it", elsewhere) == [
        {"commitInfo": {"path": "kept"}},
        {"add": {"path": "there/a", "deletionVector": INLINE}, "remove": None},
        {"remove": {"path": "there/b"}},
        {"cdc": {"path": "there/c"}},
    ]


@pytest.mark.parametrize("action", [{"sidecar": {"path": "a"}}, {"checkpointMetadata": {}}])
def test_what_names_files_otherwise_is_refused(action: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="multi-part"):
        copied_actions(lines(action), "it", elsewhere)
    with pytest.raises(CorruptFileError, match="it of a Delta log"):
        copied_actions(lines(action) + b"{", "it", elsewhere)


def test_a_checkpoint_is_copied_as_its_commits_are() -> None:
    vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string())])
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), ("deletionVector", vector)])
    schema = pa.schema([("add", add), ("sidecar", pa.struct([("path", pa.string())]))])

    def body(*rows: Mapping[str, Any]) -> bytes:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema), sink)
        return sink.getvalue()

    files = [{"path": "a", "size": 1}, {"path": "b", "size": 2, "deletionVector": INLINE}]
    copied = pq.read_table(
        io.BytesIO(copied_checkpoint(body(*({"add": e} for e in files)), elsewhere))
    )
    assert copied.schema == schema
    found = [each["path"] for each in copied["add"].to_pylist()]
    assert found == ["there/a", "there/b"]
    with pytest.raises(InvalidInputError, match="multi-part"):
        copied_checkpoint(body({"sidecar": {"path": "s"}}), elsewhere)


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
def test_a_blind_append_only_adds(more: list[dict[str, Any]], is_blind: bool) -> None:
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
def test_an_append_comes_after_what_leaves_the_table_its_shape(
    theirs: dict[str, Any], lets: bool
) -> None:
    assert lets_append([theirs], [*APPEND, {"txn": {"appId": "mine"}}]) is lets
