"""Metadata of a private copy, and of the table after an edit."""

from __future__ import annotations

from typing import Any

import pytest

from sparklake.layout import name_in_write
from sparklake.metadata.iceberg.edits import editable, edited, identity_columns
from sparklake.metadata.iceberg.file_names import Location, is_same_place, next_metadata

ENTRY = {"timestamp-ms": 1, "metadata-file": "s3://b/t/metadata/v1.metadata.json"}
OWN: dict[str, Any] = {
    "location": "s3://b/t",
    "last-updated-ms": 2,
    "metadata-log": [ENTRY],
    "properties": {"write.data.path": "s3://b/t/rows", "gc.enabled": "true", "owner": "joe"},
    "unknown": [1],
}
PATH = "s3://b/t/metadata/v2.metadata.json"


def test_an_edit_restores_the_settings_of_the_table() -> None:
    copy = editable(OWN, "s3://b/ns/data/x")
    assert copy["location"] == "s3://b/ns/data/x"
    assert copy["properties"] == {"gc.enabled": "false", "owner": "joe"}
    assert copy["metadata-log"] == []
    table = edited({**copy, "snapshots": [1]}, OWN, PATH)
    log = [ENTRY, {"timestamp-ms": 2, "metadata-file": PATH}]
    assert table == {**OWN, "snapshots": [1], "metadata-log": log}


def test_properties_set_by_an_edit_are_kept() -> None:
    copy = editable(OWN, "s3://b/ns/data/x")
    properties = {**copy["properties"], "write.metadata.path": "s3://b/t/m", "gc.enabled": "true"}
    properties |= {"write.metadata.previous-versions-max": "1"}
    table = edited({**copy, "properties": properties}, OWN, PATH)
    assert table["properties"] == {**properties, "write.data.path": "s3://b/t/rows"}
    assert [each["metadata-file"] for each in table["metadata-log"]] == [PATH]


def test_a_table_without_properties_is_edited() -> None:
    bare = {"location": "s3://b/t"}
    assert edited(editable(bare, "p"), bare, PATH)["properties"] == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, "00000-u.metadata.json"),
        ("v9.metadata.json", "v10.metadata.json"),
        ("v9.gz.metadata.json", "v10.metadata.json"),
        ("00009-abc.metadata.json", "00010-u.metadata.json"),
        ("99999-abc.gz.metadata.json", "100000-u.metadata.json"),
    ],
)
def test_the_next_metadata_file_has_the_next_number(name: str | None, expected: str) -> None:
    assert next_metadata(name, "u") == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (f"s3://b/ns/data/{'0a' * 16}/data/k=1/x.parquet", "data/k=1/x.parquet"),
        (f"file:/ns/data/{'a' * 32}/data/{'b' * 32}/metadata/m.avro", "metadata/m.avro"),
        (f"s3://b/ns/data/{'A' * 32}/data/x", None),
        (f"s3://b/ns/data/{'a' * 31}/x", None),
        (f"s3://b/ns/rows/{'a' * 32}/x", None),
        (f"s3://b/ns/data/{'a' * 32}", None),
        ("x", None),
    ],
)
def test_the_name_within_a_write_folder_is_found(address: str, expected: str | None) -> None:
    assert name_in_write(address) == expected


def test_equal_locations_are_recognized() -> None:
    assert is_same_place("s3a://b/x", "s3://b/x")
    assert is_same_place("file:/x", "file:///x")
    assert not is_same_place("s3://b/x", "s3://b/y")
    assert Location("s3://b/t").find_relative("s3a://b/t/x") == "x"
    assert Location("s3://b/t").find_relative("s3://b/u/x") is None
    assert Location("s3://b/t").find_relative("s3://b/t/../x") is None


def test_identity_partition_columns_are_found() -> None:
    fields = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    spec = [
        {"source-id": 2, "name": "old_b", "transform": "identity"},
        {"source-id": 1, "name": "a_bucket", "transform": "bucket[4]"},
    ]
    document = {
        "schemas": [{"fields": fields}],
        "partition-specs": [{"spec-id": 1, "fields": spec}],
    }
    assert identity_columns({**document, "default-spec-id": 1}) == ["b"]
    assert identity_columns(document) == []
