"""The types of columns in Parquet files, as far as Spark distinguishes them."""

from __future__ import annotations

import io
import re
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
from tests.support.cases import for_each
from tests.support.parquet_types import STORED_TYPES


def types_of(repo: Repository, path: str) -> ColumnTypes | None:
    return find_file_types(open_snapshot(repo._context, "main").stat(path), "main")


def stored(*fields: tuple[str, Any], **options: Any) -> ColumnTypes:
    sink = io.BytesIO()
    pq.write_table(pa.schema(list(fields)).empty_table(), sink, **options)
    return column_types(pq.ParquetFile(sink))


@for_each("name", STORED_TYPES)
def test_every_stored_type_has_the_name_of_sparks_type(name: str) -> None:
    kind = STORED_TYPES[name].spark
    types = column_types(pq.ParquetFile(io.BytesIO(STORED_TYPES[name].file())))
    assert types == {
        "v": kind,
        "l": f"array<{kind}>",
        "s": f"struct<x:{kind}>",
        "m": f"map<string,{kind}>",
    }


def test_the_page_lists_every_stored_type() -> None:
    page = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page, re.MULTILINE)
    listed = {kind: {*names.split("; ")} for kind, names in rows}
    expected: dict[str, set[str]] = {}
    for name, each in STORED_TYPES.items():
        kind = re.sub(r"\(\d+,\d+\)", "(p,s)", each.spark)
        name = re.sub(r"DECIMAL\(\d+,\d+\)", "DECIMAL(p,s)", name)
        expected.setdefault(kind, set()).add(name)
    assert {kind: listed.get(kind) for kind in expected} == expected


def test_types_of_one_meaning_are_equal() -> None:
    one = stored(
        ("Name", pa.string()),
        ("words", pa.list_(pa.field("element", pa.string()))),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("a", pa.large_string()), ("b", pa.timestamp("us"))])),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
    )
    other = stored(
        ("name", pa.dictionary(pa.int32(), pa.large_string())),
        ("words", pa.large_list(pa.field("item", pa.large_string()))),
        ("pairs", pa.map_(pa.large_string(), pa.int64())),
        ("inner", pa.struct([("a", pa.string()), ("b", pa.timestamp("ms"))])),
        ("raw", pa.large_binary()),
        ("at", pa.timestamp("ms", "Europe/Berlin")),
    )
    assert differing_types(one, other) == []
    assert one["inner"] == "struct<a:string,b:timestamp_ntz>"
    assert (one["words"], one["pairs"]) == ("array<string>", "map<string,bigint>")


def test_other_types_are_named() -> None:
    one = stored(
        ("a", pa.int32()),
        ("b", pa.decimal128(9, 2)),
        ("c", pa.struct([("x", pa.int64())])),
        ("d", pa.timestamp("us")),
        ("e", pa.string()),
        ("g", pa.null()),
        ("h", pa.uint64()),
    )
    other = stored(
        ("a", pa.int64()),
        ("b", pa.decimal128(10, 2)),
        ("c", pa.struct([("y", pa.int64())])),
        ("d", pa.timestamp("ns")),
        ("f", pa.string()),
        ("g", pa.list_(pa.null())),
        ("h", pa.int64()),
    )
    assert differing_types(one, other) == [
        "a (int, bigint)",
        "b (decimal(9,2), decimal(10,2))",
        "c (struct<x:bigint>, struct<y:bigint>)",
        "d (timestamp_ntz, timestamp in nanoseconds)",
        "g (void, array<void>)",
        "h (decimal(20,0), bigint)",
    ]


def test_only_the_footer_of_a_file_is_read(tmp_path: Path) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "namespace"))
    main = repo.branch("main")
    moments = pa.table({"at": pa.array([1]).cast(pa.timestamp("us")), "id": [1]})
    for name, kind, options in (
        ("spark", "timestamp", {"use_deprecated_int96_timestamps": True}),
        ("micros", "timestamp_ntz", {"coerce_timestamps": "us"}),
    ):
        with main.open(f"{name}.parquet", "wb") as file:
            pq.write_table(moments, file, **options)
        assert types_of(repo, f"{name}.parquet") == {"at": kind, "id": "bigint"}
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
