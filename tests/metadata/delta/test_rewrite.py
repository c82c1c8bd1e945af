"""Paths of a Delta log become addresses, and everything else stays the same."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sparklake.errors import CorruptFileError
from sparklake.metadata.delta.paths import vector_path
from sparklake.metadata.delta.rewrite import rewritten_batch, rewritten_commit, to_addresses
from sparklake.metadata.delta.table_files import hashes, repeated, unlike

SHORT = "ab^-aqEH.-t@S}K{vb[*k^"
LONG = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
"""The example of Delta's own protocol."""


def placed(relative: pa.Array) -> pa.Array:
    return pa.array([f"s3a://bucket/{each}" for each in relative.to_pylist()], pa.string())


REWRITE = to_addresses(placed)


def test_the_short_name_of_a_deletion_vector_is_decoded() -> None:
    assert vector_path(SHORT) == LONG
    assert vector_path(SHORT[2:]) == LONG[3:]
    for wrong in ("", "short", "é" * 20, "#" * 20):
        with pytest.raises(CorruptFileError):
            vector_path(wrong)


def actions(path: str, vector: tuple[str, str] | None) -> dict[str, object]:
    fields: dict[str, object] = {"path": path, "size": 2**53 + 1, "partitionValues": {"p": None}}
    if vector:
        fields["deletionVector"] = {"storageType": vector[0], "pathOrInlineDv": vector[1]}
    return fields


CASES = [
    ("p=a%2520b/x", None, "s3a://bucket/p=a%20b/x", None),
    ("s3a://other/x", None, "s3a://other/x", None),
    ("/other/x", None, "/other/x", None),
    ("x", ("u", SHORT), "s3a://bucket/x", ("p", f"s3a://bucket/{LONG}")),
    ("x", ("p", "s3a://other/v"), "s3a://bucket/x", ("p", "s3a://other/v")),
    ("x", ("i", "inline"), "s3a://bucket/x", ("i", "inline")),
]


def test_a_commit_is_rewritten() -> None:
    others = [{"commitInfo": {"path": "kept"}}, {"txn": {"appId": "é", "version": 1}}]
    before, after = list(others), list(others)
    for path, vector, new_path, new_vector in CASES:
        for kind in ("add", "remove"):
            before.append({kind: actions(path, vector)})
            after.append({kind: actions(new_path, new_vector)})
    body = "\n".join(map(json.dumps, before)).encode()
    assert [
        json.loads(line) for line in rewritten_commit(body, "it", REWRITE).splitlines()
    ] == after
    for broken in (b"{no json", b"1"):
        with pytest.raises(CorruptFileError):
            rewritten_commit(broken, "it", REWRITE)


def test_a_checkpoint_is_rewritten() -> None:
    before: list[dict[str, object]] = [{"txn": {"appId": "a"}, "add": None}]
    after = list(before)
    for path, vector, new_path, new_vector in CASES:
        before.append({"txn": None, "add": actions(path, vector)})
        after.append({"txn": None, "add": actions(new_path, new_vector)})
    text = pa.map_(pa.string(), pa.string())
    vectors = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string())])
    add = pa.struct(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("partitionValues", text),
            ("deletionVector", vectors),
        ]
    )
    schema = pa.schema([("txn", pa.struct([("appId", pa.string())])), ("add", add)])
    one, other = (pa.RecordBatch.from_pylist(rows, schema=schema) for rows in (before, after))
    # A part of a batch, as a reader may give it.
    assert rewritten_batch(one.slice(1), REWRITE).to_pylist() == other.slice(1).to_pylist()
    assert rewritten_batch(one, REWRITE).to_pylist() == other.to_pylist()


def test_a_file_with_several_names_has_several_uris() -> None:
    uris = pa.array(["s3a://b/a b", "s3a://b/c", "s3a://b/a b"])
    shared = repeated([hashes(uris.slice(0, 2)), hashes(uris.slice(2))])
    result = unlike(uris, pa.array(["x", "y", "z z#"]), shared)
    assert result.to_pylist() == ["s3a://b/a%20b#x", "s3a://b/c", "s3a://b/a%20b#z%20z%23"]
    assert unlike(uris, uris, repeated([])).to_pylist()[1:] == ["s3a://b/c", "s3a://b/a%20b"]
