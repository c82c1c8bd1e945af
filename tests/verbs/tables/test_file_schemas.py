"""The types of columns in Parquet files, as far as Spark distinguishes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake import Repository
from sparklake.rows.objects import ObjectInfo
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.base.snapshot import open_snapshot
from sparklake.verbs.tables.file_schemas import (
    ColumnTypes,
    column_types,
    differing_types,
    find_file_types,
)


def types_of(repo: Repository, path: str) -> ColumnTypes | None:
    return find_file_types(open_snapshot(repo._context, "main").stat(path), "main")


def test_types_of_one_meaning_are_equal() -> None:
    one = {
        "Name": pa.string(),
        "words": pa.list_(pa.field("element", pa.string())),
        "pairs": pa.map_(pa.string(), pa.int64()),
        "inner": pa.struct([("a", pa.large_string()), ("b", pa.timestamp("us"))]),
        "raw": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "void": pa.null(),
        "unusual": pa.list_(pa.time64("us")),
    }
    other = {
        "name": pa.dictionary(pa.int32(), pa.large_string()),
        "words": pa.large_list(pa.field("item", pa.large_string())),
        "pairs": pa.map_(pa.large_string(), pa.int64()),
        "inner": pa.struct([("a", pa.string()), ("b", pa.timestamp("ms"))]),
        "raw": pa.large_binary(),
        "at": pa.timestamp("ms", "Europe/Berlin"),
        "void": pa.int32(),
        "unusual": pa.list_(pa.int32()),
    }
    types = column_types(pa.schema(list(one.items())))
    assert differing_types(types, column_types(pa.schema(list(other.items())))) == []
    assert types["void"] == types["unusual"] == ""
    assert types["inner"] == "struct<a:string,b:timestamp>"
    assert (types["words"], types["pairs"]) == ("array<string>", "map<string,bigint>")


def test_other_types_are_named() -> None:
    one: list[tuple[str, Any]] = [
        ("a", pa.int32()),
        ("b", pa.decimal128(9, 2)),
        ("c", pa.struct([("x", pa.int64())])),
        ("d", pa.timestamp("us")),
        ("e", pa.string()),
    ]
    other: list[tuple[str, Any]] = [
        ("a", pa.int64()),
        ("b", pa.decimal128(10, 2)),
        ("c", pa.struct([("y", pa.int64())])),
        ("d", pa.timestamp("ns")),
        ("f", pa.string()),
    ]
    assert differing_types(column_types(pa.schema(one)), column_types(pa.schema(other))) == [
        "a (int, bigint)",
        "b (decimal(9,2), decimal(10,2))",
        "c (struct<x:bigint>, struct<y:bigint>)",
        "d (timestamp, timestamp in nanoseconds)",
    ]


def test_only_the_footer_of_a_file_is_read(tmp_path: Path) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "namespace"))
    main = repo.branch("main")
    moments = pa.table({"at": pa.array([1]).cast(pa.timestamp("us")), "id": [1]})
    for name, options in {
        "spark": {"use_deprecated_int96_timestamps": True},
        "micros": {"coerce_timestamps": "us"},
    }.items():
        with main.open(f"{name}.parquet", "wb") as file:
            pq.write_table(moments, file, **options)
        assert types_of(repo, f"{name}.parquet") == {"at": "timestamp", "id": "bigint"}
    nanoseconds = moments.cast(pa.schema([("at", pa.timestamp("ns")), ("id", pa.int64())]))
    with main.open("pandas.parquet", "wb") as file:
        pq.write_table(nanoseconds, file)
    assert types_of(repo, "pandas.parquet") == {"at": "timestamp in nanoseconds", "id": "bigint"}


def test_what_is_not_parquet_has_no_types(tmp_path: Path) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "namespace"))
    main = repo.branch("main")
    for number, body in enumerate((b"", b"text", b"PAR1" * 9, bytes(5_000))):
        main.put(f"{number}.parquet", body)
        assert types_of(repo, f"{number}.parquet") is None
    main.put("gone.parquet", b"x")
    (found,) = repo.objects("main", "gone.parquet")
    Path(found.address.removeprefix("file://")).unlink()
    assert types_of(repo, "gone.parquet") is None


@pytest.mark.parametrize("place", ["hdfs://name/t", "https://host/c", "{}"])
def test_files_where_nobody_can_read_them_have_no_types(tmp_path: Path, place: str) -> None:
    """A restore from lakeFS has entries of other stores, and an owner may delete a whole folder."""
    place = place.format(tmp_path.as_uri())
    found = ObjectInfo("t/a.parquet", 100, "md5", 0, f"{place}/a.parquet")
    assert find_file_types(found, "main") is None
