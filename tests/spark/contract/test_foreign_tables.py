"""Tables that pyarrow has written: imported where they lie, and read by Spark at a ref."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest

from sparklake import Repository
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

ENGINE = "auto"

VALUES = ["a b", "50% = x", "日本/é", None, "a=b", "[x]{y}*?", "#1+é", "very long " * 10]

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(20, 4)),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("keyed", pa.map_(pa.string(), pa.int64())),
        ("p", pa.string()),
    ]
)
FLAT = ("id", "price", "p")
"""The columns that a format without types can have; it gives the second one back as text."""

COLUMNS = {
    "parquet": tuple(TYPES.names),
    "orc": tuple(name for name in TYPES.names if name != "at" or not IS_3),
    "csv": FLAT,
}


def row(number: int, value: str | None) -> dict[str, Any]:
    return {
        "id": number,
        "at": datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc) if number else None,
        "price": Decimal(number) + Decimal("0.25"),
        "nested": {"a": number, "b": ["x", None, "é"]} if number % 2 else None,
        "keyed": [("k", number)],
        "p": value,
    }


WRITERS = {
    "parquet": pyarrow.parquet.write_table,
    "orc": pyarrow.orc.write_table,
    "csv": pyarrow.csv.write_csv,
}


def partition(value: str | None, table_format: str) -> str:
    """Return the name of a folder, of UTF-8 in percents where a read decodes that."""
    if value is None:
        return "p=__HIVE_DEFAULT_PARTITION__"
    if table_format == "parquet":
        return f"p={quote(value, safe='')}"
    return f"p={value.replace('/', '%2F')}"


def told(table: pa.Table) -> list[tuple[str, ...]]:
    """Return all rows as text, in order, which has the same form for what either side read."""
    return sorted(tuple(map(repr, each.values())) for each in table.to_pylist())


@pytest.mark.parametrize("table_format", WRITERS)
def test_a_table_of_pyarrow_is_read_where_it_lies(
    repo: Repository, tmp_path: Path, table_format: str
) -> None:
    columns = COLUMNS[table_format]
    rows = [row(*each) for each in enumerate(VALUES)]
    given = pa.Table.from_pylist(rows, TYPES).select(columns)
    lies = tmp_path / "a table, 100%" / ("n" * 200)
    for number, value in enumerate(VALUES):
        folder = lies / partition(value, table_format)
        folder.mkdir(parents=True)
        one = given.slice(number, 1).drop_columns("p")
        WRITERS[table_format](one, str(folder / f"{'f' * 200} {number}.{table_format}"))
    main = repo.branch("main")
    assert main.import_objects(str(lies), "tables/é 50%/").objects == len(VALUES)

    options = {"header": True, "inferSchema": True} if table_format == "csv" else {}
    found = repo.read("main", "tables/é 50%", table_format, **options)
    found = found.withColumn("price", found.price.cast("decimal(20, 4)")).select(*columns)
    assert told(rows_of(found)) == told(given)
    for number, value in enumerate(VALUES):
        chosen = found.where(found.p.isNull() if value is None else found.p == value)
        assert [each.id for each in chosen.select("id").collect()] == [number]


def test_moments_in_orc_are_for_spark_4(repo: Repository, tmp_path: Path) -> None:
    given = pa.Table.from_pylist([row(1, None)], TYPES).select(["at"])
    (tmp_path / "lies").mkdir()
    pyarrow.orc.write_table(given, tmp_path / "lies" / "f.orc")
    repo.branch("main").import_objects(str(tmp_path / "lies"), "t/")
    # Spark 3.5 does not know the name of the type, whatever is read of the file.
    refused = pytest.raises(Exception, match="with local time zone") if IS_3 else nullcontext()
    with refused:
        assert told(rows_of(repo.read("main", "t", "orc"))) == told(given)


def rows_of(found: DataFrame) -> pa.Table:
    """Return the rows of a frame; before Spark 4 there is no public way but by pandas."""
    if hasattr(found, "toArrow"):
        return found.toArrow()
    types = pa.schema([TYPES.field(name) for name in found.columns])
    return pa.Table.from_pylist([each.asDict(recursive=True) for each in found.collect()], types)
