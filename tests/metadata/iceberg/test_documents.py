"""Rewritten metadata: other locations and paths, with every other field as it was."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import fastavro
import pytest

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.metadata.iceberg.avro import AvroFile
from sparklake.metadata.iceberg.documents import (
    decode_document,
    encode_document,
    moved,
    with_former,
    with_properties,
)
from sparklake.metadata.iceberg.manifests import MovedDeletes, moved_list, moved_manifest
from tests.metadata.iceberg.test_avro import compressed, record
from tests.support.iceberg import manifest, manifest_list

DOCUMENT: dict[str, Any] = {
    "format-version": 3,
    "location": "s3://b/t",
    "snapshots": [
        {"snapshot-id": 9_007_199_254_740_993, "manifest-list": "s3://b/t/metadata/a", "x": 1},
        {"snapshot-id": 2, "manifests": ["s3://b/t/metadata/m"]},
    ],
    "metadata-log": [{"metadata-file": "s3://b/t/metadata/v1", "timestamp-ms": 1}],
    "statistics": [{"statistics-path": "s3://b/t/metadata/s"}],
    "properties": {"a": "1", "b": "2"},
    "a-later-field": {"nested": [1.5, None]},
}


@pytest.mark.parametrize("compressed", [False, True])
def test_moved_metadata_keeps_unknown_fields(compressed: bool) -> None:
    body = encode_document(DOCUMENT)
    document = decode_document(gzip.compress(body) if compressed else body)
    assert document == DOCUMENT
    text = json.dumps(DOCUMENT).replace("s3://b/t", "file:/w")
    result = moved(document, "file:/w", lambda path: path.replace("s3://b/t", "file:/w"))
    assert result == json.loads(text)
    assert document == DOCUMENT


def test_properties_are_set_and_removed() -> None:
    result = with_properties(DOCUMENT, {"a": None, "c": "3"})
    assert result["properties"] == {"b": "2", "c": "3"}
    assert with_properties({}, {"missing": None}) == {"properties": {}}


def test_encrypted_metadata_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="encrypted"):
        decode_document(encode_document({**DOCUMENT, "encryption-keys": [{}]}))


FILE = {
    "file_path": "old/x",
    "file_format": "PARQUET",
    "partition": {},
    "record_count": 1,
    "file_size_in_bytes": 1,
    "null_value_counts": [{"key": 1, "value": 0}],
    "block_size_in_bytes": 0,
    "content": 0,
}


def no_deletes(path: str) -> MovedDeletes:
    raise AssertionError(path)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifest_paths_are_rewritten(version: int) -> None:
    body = manifest(version, [FILE, {**FILE, "file_path": "old/y"}])
    result = moved_manifest(body, lambda path: path.replace("old", "new"), no_deletes)
    rows = [*AvroFile.of(body).records()]
    expected = [{**each, 2: {**each[2], 100: each[2][100].replace("old", "new")}} for each in rows]
    assert [*AvroFile.of(result).records()] == expected
    assert AvroFile.of(result).header["avro.schema"] == AvroFile.of(body).header["avro.schema"]
    entry = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0}
    listed = manifest_list(
        version, [{**entry, "added_snapshot_id": 1, "content": 0, "sequence_number": 1}]
    )
    (entry_after,) = AvroFile.of(moved_list(listed, {"m": ("n", len(result))})).records()
    assert (entry_after[500], entry_after[501], entry_after[503]) == ("n", len(result), 1)


def test_delete_file_paths_are_rewritten() -> None:
    vector = {**FILE, "file_format": "PUFFIN", "content": 1, "referenced_data_file": "old/y"}
    (row,) = AvroFile.of(moved_manifest(manifest(3, [vector]), str.upper, no_deletes)).records()
    assert (row[2][100], row[2][143]) == ("OLD/X", "OLD/Y")
    deletes = manifest(2, [{**FILE, "content": 1}])
    moved = moved_manifest(deletes, str.upper, lambda _: MovedDeletes("new", 7, b"a", b"b"))
    (row,) = AvroFile.of(moved).records()
    assert (row[2][100], row[2][104]) == ("new", 7)
    # A removed file need not exist.
    file = AvroFile.of(deletes)
    removed = file.with_records([{**each, 0: 2} for each in file.records()])
    (row,) = AvroFile.of(moved_manifest(removed, str.upper, no_deletes)).records()
    assert row[2][100] == "OLD/X"


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_a_rewritten_file_keeps_its_records(codec: str) -> None:
    pair = {"type": "record", "name": "p", "fields": record("int", "bytes")["fields"]}
    summary = {**record("boolean", ["null", "boolean"], "bytes"), "name": "s"}
    schema = record(
        "long", ["null", {"type": "array", "items": pair}], {"type": "array", "items": summary}
    )
    rows = [
        {"f1": -(1 << 63) + at, "f2": pairs, "f3": [{"f1": True, "f2": None, "f3": b"x"}] * at}
        for at, pairs in enumerate([None, [], [{"f1": 1, "f2": b""}, {"f1": 2, "f2": b"y"}]])
    ]
    body = compressed(schema, rows, codec)
    file = AvroFile.of(body)
    result = file.with_records(file.records(), {"sparklake": "1"})
    assert [*AvroFile.of(result).records()] == [*AvroFile.of(body).records()]
    reader = fastavro.reader(io.BytesIO(result))
    assert [*reader] == rows
    assert reader.metadata["sparklake"] == "1"
    assert [*AvroFile.of(AvroFile.of(body).with_records([])).records()] == []


def test_repeated_field_ids_are_rejected() -> None:
    schema = record("int", "int")
    schema["fields"][1]["field-id"] = 1
    file = AvroFile.of(compressed(schema, [{"f1": 1, "f2": 2}], "null"))
    with pytest.raises(CorruptFileError, match="repeats field ids"):
        file.with_records(file.records())


@pytest.mark.parametrize(("limit", "count"), [(None, 4), ("2", 2), ("-1", 1), ("all", 4)])
def test_the_metadata_log_is_limited_by_the_properties(limit: str | None, count: int) -> None:
    before = {"last-updated-ms": 7, "metadata-log": [{"metadata-file": each} for each in "abc"]}
    document = with_properties({}, {"write.metadata.previous-versions-max": limit})
    log = with_former(document, before, "d")["metadata-log"]
    assert log[-1] == {"timestamp-ms": 7, "metadata-file": "d"}
    assert [each["metadata-file"] for each in log] == [*"abcd"][-count:]
