"""Metadata of Iceberg tables: file names, schemas, live files and their deletes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.metadata.iceberg.delta_columns import DeltaColumns
from sparklake.metadata.iceberg.file_names import Location, current_metadata
from sparklake.metadata.iceberg.live import LiveFiles, read_position_deletes
from sparklake.metadata.iceberg.manifests import Manifest, TableFile, live_files, manifests_in
from sparklake.metadata.iceberg.metadata import parse_metadata
from tests.support.iceberg import HandTable


def test_the_highest_version_is_current() -> None:
    names = ["v2.metadata.json", "v10.gz.metadata.json", "v9.metadata.json", "snap-1.avro"]
    assert current_metadata(names) == "v10.gz.metadata.json"
    assert current_metadata(["00001-a.metadata.json", "00000-b.metadata.json"])[:5] == "00001"  # type: ignore[index]
    assert current_metadata(["version-hint.text", "x.json"]) is None


@pytest.mark.parametrize(
    "names",
    [
        ["00001-a.metadata.json", "00001-b.metadata.json"],
        ["v1.metadata.json", "v1.gz.metadata.json"],
        ["v5.metadata.json", "00000-a.metadata.json"],
    ],
)
def test_ambiguous_metadata_is_rejected(names: list[str]) -> None:
    with pytest.raises(InvalidInputError, match=r"is ambiguous: .*, .*Remove all but"):
        current_metadata(names)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("s3://b/t", "s3a://b/t/data/x"),
        ("s3a://b/t/", "s3n://b/t/data/x"),
        ("/w/t", "file:///w/t/data/x"),
        ("file:/w/t", "/w/t/data/x"),
        ("gs://b/t", "gs://b/t/data/x"),
    ],
)
def test_a_path_below_the_location_is_relative(location: str, path: str) -> None:
    assert Location(location).relative(path) == "data/x"


@pytest.mark.parametrize("path", ["s3://b/t2/x", "s3://b/t", "s3://b/t/../u/x", "gs://b/t/x"])
def test_a_path_outside_the_location_is_rejected(path: str) -> None:
    with pytest.raises(InvalidInputError, match=r"outside of its location 's3://b/t'"):
        Location("s3://b/t").relative(path)


METADATA: dict[str, Any] = {"format-version": 2, "location": "s3://b/t"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"format-version": 4}, InvalidInputError, "format version 4"),
        ({"format-version": "2"}, CorruptFileError, "damaged"),
        ({"location": None}, CorruptFileError, "damaged"),
        ({"properties": {"schema.name-mapping.default": ""}}, InvalidInputError, "lack field ids"),
        ({"encryption-keys": [{}]}, InvalidInputError, "encrypted"),
        ({"properties": {"encryption.key-id": "k"}}, InvalidInputError, "encrypted"),
        ({"snapshots": [{"snapshot-id": 1, "key-id": "k"}]}, InvalidInputError, "encrypted"),
    ],
)
def test_unsupported_metadata_is_rejected(
    changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse_metadata(json.dumps({**METADATA, **changes}).encode())


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"\x1f\x8bx", b"\xff\xfe"])
def test_damaged_metadata_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match="metadata is"):
        parse_metadata(body)


def test_a_snapshot_is_found_by_id_or_ref() -> None:
    more = {
        "snapshots": [{"snapshot-id": 5, "schema-id": 1}, {"snapshot-id": 7}],
        "current-snapshot-id": 7,
        "current-schema-id": 2,
        "schemas": [{"schema-id": 1}, {"schema-id": 2}],
        "refs": {"audit": {"snapshot-id": 5, "type": "branch"}},
    }
    table = parse_metadata(json.dumps({**METADATA, **more}).encode())
    snapshots = [table.snapshot(each) for each in (None, "5", "audit")]
    assert [each.snapshot_id for each in snapshots if each] == [7, 5, 5]
    assert [table.schema_of(each)["schema-id"] for each in snapshots] == [2, 1, 1]
    for name in ("6", "missing", "-1"):
        with pytest.raises(InvalidInputError, match="no snapshot"):
            table.snapshot(name)
    assert parse_metadata(json.dumps(METADATA).encode()).snapshot() is None


def column(kind: Any, **more: Any) -> dict[str, Any]:
    fields = [{"id": 1, "name": "x", "required": False, "type": kind, **more}]
    return {"type": "struct", "fields": fields}


@pytest.mark.parametrize("kind", ["uuid", "time", "timestamp_ns", "variant", "unknown", "geometry"])
def test_types_without_a_delta_type_are_rejected(kind: str) -> None:
    nested = {"type": "list", "element-id": 2, "element-required": True, "element": kind}
    for each in (kind, nested):
        with pytest.raises(InvalidInputError, match=f"the type {kind}, which needs Iceberg's"):
            DeltaColumns.of(column(each))


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (column("int", **{"initial-default": 3}), InvalidInputError),
        (column("int", id="1"), CorruptFileError),
        (column({"type": "list"}), CorruptFileError),
        (column(column("int")), CorruptFileError),
        (column(3), CorruptFileError),
        ({"type": "struct"}, CorruptFileError),
        ({}, CorruptFileError),
    ],
)
def test_an_unsupported_schema_is_rejected(schema: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        DeltaColumns.of(schema)


def test_columns_that_differ_only_in_case_are_rejected() -> None:
    kind = {"required": True, "type": "int"}
    fields = [{"id": at, "name": name, **kind} for at, name in enumerate("xX")]
    with pytest.raises(InvalidInputError, match="columns x differ in case"):
        DeltaColumns.of({"type": "struct", "fields": fields})


def files_of(table: HandTable) -> list[TableFile]:
    name = table.snapshots[-1]["manifest-list"].removeprefix(f"{table.location}/")
    files = []
    for each in manifests_in((table.folder / name).read_bytes()):
        body = (table.folder / each.path.removeprefix(f"{table.location}/")).read_bytes()
        assert each.length == len(body)
        files += live_files(body, each)
    return files


@pytest.fixture
def table(tmp_path: Path) -> HandTable:
    return HandTable(tmp_path / "t", 3)


def test_statistics_are_converted_to_delta(table: HandTable) -> None:
    bounds = {
        "lower_bounds": [{"key": 1, "value": b"\xff\xff\xff\xff"}, {"key": 2, "value": b"\xff"}],
        "upper_bounds": [{"key": 1, "value": b"\x07\0\0\0\0\0\0\0"}, {"key": 2, "value": b"z"}],
        "null_value_counts": [{"key": 2, "value": 4}, {"key": 9, "value": 1}],
    }
    table.commit(table.data("a", 1, 2, **bounds))
    (file,) = files_of(table)
    text = DeltaColumns.of({"type": "struct", "fields": table.fields}).statistics(file)
    assert json.loads(text) == {
        "numRecords": 2,
        "tightBounds": False,
        "minValues": {"field-1": -1},
        "maxValues": {"field-1": 7, "field-2": "z"},
        "nullCount": {"field-2": 4},
    }


def deleted(table: HandTable) -> dict[str, list[int]]:
    files = LiveFiles.of(files_of(table))
    deletes = files.position_deletes
    bodies = [(table.folder / "data" / Path(each.path).name).read_bytes() for each in deletes]
    pairs = map(read_position_deletes, bodies, deletes)
    live = files.with_deletes(zip(deletes, pairs, strict=True))
    return {Path(each.file.path).name: each.rows.tolist() for each in live if each.rows is not None}


def test_position_deletes_apply_to_older_files(table: HandTable) -> None:
    table.commit(table.data("a", *range(9)), table.position_deletes("d1", ("a", 3), ("late", 0)))
    later = table.position_deletes("d2", ("a", 1), ("a", 3), ("gone", 5))
    table.commit(table.data("late", 1, 2), later)
    assert deleted(table) == {"a": [1, 3]}
    # A vector contains the earlier position deletes of its file.
    table.commit(*table.vectors("v", {"a": [1, 3, 5]}))
    assert deleted(table) == {}


@pytest.mark.parametrize("row", [-1, 9])
def test_a_deleted_row_beyond_its_file_is_corrupt(table: HandTable, row: int) -> None:
    table.commit(table.data("a", *range(9)), table.position_deletes("d", ("a", row)))
    with pytest.raises(CorruptFileError, match=r"deletes a row that .* lacks"):
        deleted(table)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"content": 2}, InvalidInputError, "equality deletes .* as Flink"),
        ({"file_format": "orc"}, InvalidInputError, "the format 'orc'"),
        ({"content": 7}, CorruptFileError, "content 7"),
        ({"record_count": -1}, CorruptFileError, "negative"),
    ],
)
def test_unsupported_files_are_rejected(
    table: HandTable, more: Any, error: type[Exception], message: str
) -> None:
    table.commit({**table.data("a", 1), **more})
    with pytest.raises(error, match=message):
        LiveFiles.of(files_of(table))


@pytest.mark.parametrize(
    "more",
    [
        {"content_offset": -1},
        {"content_offset": 1 << 40},
        {"content_size_in_bytes": 8},
        {"content_size_in_bytes": 1 << 40},
        {"referenced_data_file": None},
        {"record_count": 99},
    ],
)
def test_an_invalid_deletion_vector_is_corrupt(table: HandTable, more: Any) -> None:
    (vector,) = table.vectors("v", {"a": [1]})
    table.commit(table.data("a", 1, 2), {**vector, **more})
    with pytest.raises(CorruptFileError, match="deletion vector"):
        LiveFiles.of(files_of(table))


def test_a_file_listed_twice_is_corrupt(table: HandTable) -> None:
    file = table.data("a", 1)
    table.commit(file, file)
    with pytest.raises(CorruptFileError, match="two live manifest entries"):
        LiveFiles.of(files_of(table))


def test_a_deletion_vector_of_another_partition_is_corrupt(table: HandTable) -> None:
    table.commit(table.data("a", 1, 2), *table.vectors("v", {"a": [1]}))
    data, vector = files_of(table)
    with pytest.raises(CorruptFileError, match="in another partition"):
        LiveFiles.of([data, replace(vector, spec_id=1)])


def test_a_manifest_list_is_not_a_manifest(table: HandTable) -> None:
    table.commit(table.data("a", 1))
    name = table.snapshots[-1]["manifest-list"].removeprefix(f"{table.location}/")
    with pytest.raises(CorruptFileError, match="no valid field 0"):
        list(live_files((table.folder / name).read_bytes(), Manifest("m")))
