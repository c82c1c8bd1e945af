"""Scans of tables for Spark's Python data sources: what they plan, skip, convert and refuse."""

from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from sparklake import Branch, Repository
from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError
from sparklake.frames.tables import parquet_scan as scans
from sparklake.metadata.delta.vectors import new_vectors
from sparklake.metadata.vectors.bitmaps import positions
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.tables.stream_reads import plan_scan

TABLE = "tables/t"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def body_of(metadata: dict[str, str] | None = None, rows: int = 1 << 20, **columns: Any) -> bytes:
    sink = io.BytesIO()
    table = pa.table(columns).replace_schema_metadata(metadata)
    pq.write_table(table, sink, row_group_size=rows, coerce_timestamps=None)
    return sink.getvalue()


def rows_of(repo: Repository, schema: str = "") -> list[dict[str, Any]]:
    scan = plan_scan(repo._context, "main", TABLE)
    columns = StructType.fromJson(json.loads(schema)) if schema else scan.schema
    slices = [part for file in scan.files for part in file.slices()]
    batches = (batch for each in slices for batch in scans.scan_rows(each, columns))
    return [row for batch in batches for row in batch.to_pylist()]


def columns_json(**kinds: str) -> str:
    schema = StructType()
    for name, kind in kinds.items():
        schema = schema.add(name, kind)
    return schema.json()


def test_files_are_read_by_the_names_and_types_of_the_first(repo: Repository, main: Branch) -> None:
    main.put(f"{TABLE}/a=1/1.parquet", body_of(id=pa.array([1]), name=["one"], a=[99]))
    main.put(f"{TABLE}/a=2/2.parquet", body_of(ID=pa.array([2], pa.int16()), more=[0]))
    main.put(f"{TABLE}/a=__HIVE_DEFAULT_PARTITION__/3.parquet", body_of(name=["three"]))
    main.put(f"{TABLE}/_SUCCESS", b"")
    assert rows_of(repo) == [
        {"id": 1, "name": "one", "a": 1},
        {"id": 2, "name": None, "a": 2},
        {"id": None, "name": "three", "a": None},
    ]
    assert rows_of(repo, columns_json(a="string", more="long"))[1] == {"a": "2", "more": 0}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (body_of(id=["text"]), "the column 'id' of .* is string, not bigint"),
        (body_of(id=pa.array([1.5])), "is double, not bigint"),
        (body_of(id=[1], ID=[2]), "has repeated column names"),
        (body_of(id=[1], at=pa.array([0], pa.timestamp("ns"))), "in nanoseconds"),
        (
            body_of({"org.apache.spark.legacyDateTime": ""}, id=[1], at=[date(1500, 1, 1)]),
            "in the calendar of Spark 2",
        ),
        (b"id,name\n1,one\n", "is not readable as Parquet"),
    ],
)
def test_files_that_would_be_read_in_another_way_are_refused(
    repo: Repository, main: Branch, body: bytes, words: str
) -> None:
    main.put(f"{TABLE}/1.parquet", body_of(id=[1]))
    main.put(f"{TABLE}/2.parquet", body)
    with pytest.raises(InvalidInputError, match=words):
        rows_of(repo)


def test_a_partition_column_whose_text_depends_on_the_session_is_refused(
    repo: Repository, main: Branch
) -> None:
    main.put(f"{TABLE}/at=2026-07-01 10:00:00/1.parquet", body_of(id=[1]))
    with pytest.raises(InvalidInputError, match="partition column 'at' of type timestamp"):
        rows_of(repo)


def test_a_file_that_was_changed_outside_is_an_error(repo: Repository, main: Branch) -> None:
    main.put(f"{TABLE}/1.parquet", body_of(id=[1]))
    file = Path(repo.stat("main", f"{TABLE}/1.parquet").address.removeprefix("file://"))
    plan = plan_scan(repo._context, "main", TABLE)
    file.chmod(0o644)
    file.write_bytes(body_of(id=[*range(1000)]))
    with pytest.raises(CorruptFileError, match="overwritten outside the lake"):
        list(scans.scan_rows(plan.files[0], plan.schema))
    file.unlink()
    with pytest.raises(MissingFileError, match="restore it there"):
        list(scans.scan_rows(plan.files[0], plan.schema))


@pytest.mark.system
@pytest.mark.parametrize("slice_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("has_vector", [False, True])
def test_the_slices_of_a_file_have_each_row_once(
    repo: Repository,
    main: Branch,
    monkeypatch: pytest.MonkeyPatch,
    slice_bytes: int,
    has_vector: bool,
) -> None:
    monkeypatch.setattr(scans, "SLICE_BYTES", slice_bytes)
    put_delta(main, deleted=(0, 7, 8, 99) if has_vector else (), rows=10)
    expected = [n for n in range(100) if not (has_vector and n in (0, 7, 8, 99))]
    assert [each["id"] for each in rows_of(repo)] == expected


def put_delta(
    main: Branch, deleted: tuple[int, ...] = (), rows: int = 100, **protocol: Any
) -> None:
    body = body_of(id=[*range(100)], rows=rows)
    main.put(f"{TABLE}/x=1/a b.parquet", body)
    main.put(f"{TABLE}/x=1/removed.parquet", body)
    vectors, _ = new_vectors([positions(*deleted)])
    schema = json.loads(columns_json(id="long", x="integer"))
    configuration = protocol.pop("configuration", {})
    metadata = {
        "schemaString": json.dumps(schema),
        "partitionColumns": ["x"],
        "configuration": configuration,
    }
    add: dict[str, Any] = {"size": len(body), "partitionValues": {"x": "1"}}
    paths = ("x=1/a%20b.parquet", "x=1/removed.parquet")
    commits: list[list[dict[str, Any]]] = [
        [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, **protocol}},
            {"metaData": metadata},
            *({"add": {**add, "path": path}} for path in paths),
        ],
        [{"remove": {"path": paths[1]}}],
    ]
    if deleted:
        commits[1] += [
            {"remove": {"path": paths[0]}},
            {"add": {**add, "path": paths[0], "deletionVector": vectors[0]}},
        ]
    for version, actions in enumerate(commits):
        lines = "\n".join(map(json.dumps, actions))
        main.put(f"{TABLE}/_delta_log/{version:020}.json", lines.encode())


@pytest.mark.parametrize(
    ("protocol", "feature"),
    [
        ({"minReaderVersion": 2, "configuration": {"delta.columnMapping.mode": "name"}}, "column"),
        ({"minReaderVersion": 3, "readerFeatures": ["variantType"]}, "variantType"),
        ({"minReaderVersion": 4}, "reader version 4"),
        ({"minReaderVersion": 3, "writerFeatures": ["catalogManaged"]}, "catalogManaged"),
    ],
)
def test_a_delta_table_of_other_features_is_refused_by_their_names(
    repo: Repository, main: Branch, protocol: dict[str, Any], feature: str
) -> None:
    put_delta(main, **protocol)
    with pytest.raises(InvalidInputError, match=feature):
        rows_of(repo)
