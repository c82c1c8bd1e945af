"""Views of Iceberg tables: what their logs say of files, sizes and vectors. No Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparklake import Repository
from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError
from sparklake.testing.lakes import memory_lake
from tests.support.iceberg import FIELDS, HandTable

TABLE = "tables/t"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def table(tmp_path: Path) -> HandTable:
    return HandTable(tmp_path / "t", 3)


def take(repo: Repository, table: HandTable) -> None:
    repo.branch("main").import_objects(str(table.folder), TABLE)


def log(repo: Repository, **options: Any) -> list[dict[str, Any]]:
    folder = Path(repo.view("main", TABLE, "iceberg", **options).removeprefix("file:"))
    (commit,) = folder.glob("_delta_log/*.json")
    return [json.loads(line) for line in commit.read_text().splitlines()]


def test_a_log_references_vectors_where_they_are(repo: Repository, table: HandTable) -> None:
    table.commit(table.data("a", 1, 2, 3), table.data("b", 4, 5))
    table.commit(*table.vectors("v", {"a": [1], "b": [0, 1]}))
    take(repo, table)
    protocol, metadata, *adds = log(repo)
    assert protocol["protocol"]["readerFeatures"] == ["columnMapping", "deletionVectors"]
    assert metadata["metaData"]["configuration"]["delta.columnMapping.mode"] == "id"
    vectors = [each["add"]["deletionVector"] for each in adds]
    assert [each["cardinality"] for each in vectors] == [1, 2]
    assert {each["storageType"] for each in vectors} == {"p"}
    assert {Path(each["pathOrInlineDv"]).name for each in vectors} == {"v"}
    assert len({each["offset"] for each in vectors}) == 2
    assert [len(log(repo, versionAsOf=each)) for each in (1, 2)] == [4, 4]


def test_position_deletes_become_vectors(repo: Repository, table: HandTable) -> None:
    table.commit(
        table.data("a", 1, 2, 3), table.data("b", 4), table.position_deletes("d", ("a", 2))
    )
    take(repo, table)
    one, other = (each["add"].get("deletionVector") for each in log(repo)[2:])
    assert one["storageType"] == "i"
    assert one["cardinality"] == 1
    assert other is None


def test_a_schema_that_is_newer_than_the_snapshot(repo: Repository, table: HandTable) -> None:
    table.commit(table.data("a", 1))
    table.snapshots[0]["schema-id"] = 0
    renamed = [{**each, "name": f"new_{each['name']}"} for each in FIELDS]
    schemas = [
        {"type": "struct", "schema-id": at, "fields": each}
        for at, each in enumerate((FIELDS, renamed))
    ]
    table.write(schemas=schemas, **{"current-schema-id": 1})
    take(repo, table)
    columns = [
        [
            each["name"]
            for each in json.loads(log(repo, **options)[1]["metaData"]["schemaString"])["fields"]
        ]
        for options in ({}, {"versionAsOf": 1})
    ]
    assert columns == [["new_id", "new_name"], ["id", "name"]]


@pytest.mark.parametrize("name", ["data/a", "data/v", "metadata/1-m0.avro"])
def test_a_file_of_another_size(repo: Repository, table: HandTable, name: str) -> None:
    table.commit(table.data("a", 1, 2, 3), *table.vectors("v", {"a": [1]}))
    path = table.folder / name
    path.write_bytes(path.read_bytes() + b"x")
    take(repo, table)
    with pytest.raises(CorruptFileError, match=rf"'tables/t/{name}' has .* expects"):
        log(repo)


@pytest.mark.parametrize("name", ["data/a", "data/v", "metadata/1-m0.avro", "metadata/snap-1.avro"])
def test_a_missing_file(repo: Repository, table: HandTable, name: str) -> None:
    table.commit(table.data("a", 1, 2, 3), *table.vectors("v", {"a": [1]}))
    (table.folder / name).unlink()
    take(repo, table)
    with pytest.raises(MissingFileError, match=rf"'main' has no object 'tables/t/{name}'"):
        log(repo)


def test_two_current_versions(repo: Repository, table: HandTable) -> None:
    take(repo, table)
    repo.branch("main").put(f"{TABLE}/metadata/v1.gz.metadata.json", b"x")
    with pytest.raises(InvalidInputError, match=r"'tables/t' at 'main' .* is ambiguous"):
        log(repo)
