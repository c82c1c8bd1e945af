"""Iceberg tables are read at any ref without Iceberg's jar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from sparklake import Lake, Repository
from sparklake.errors import (
    InvalidImportError,
    InvalidInputError,
    MissingDependencyError,
    ObjectNotFoundError,
)
from tests.support.iceberg import HandTable
from tests.support.spark import has_iceberg

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"
TABLE = "tables/t"


@pytest.fixture
def repo(lake: Lake, names: Iterator[str], namespace: Path) -> Repository:
    return lake.create_repository(next(names), str(namespace))


def take(repo: Repository, folder: Path) -> None:
    repo.branch("main").import_objects(str(folder), TABLE)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.asDict(recursive=True).values()) for row in frame.collect()), key=repr)


def rows_in(table: Table, snapshot: int | None = None) -> list[tuple[Any, ...]]:
    rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist(maps_as_pydicts="strict")
    return sorted((tuple(row.values()) for row in rows), key=repr)


def test_what_pyiceberg_wrote(repo: Repository, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("n")
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    first = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "region": ["a", "", None],
            "price": pa.array([1.5, None, 2.5]),
            "point": pa.array([{"x": 1, "y": "p"}, None, {"x": None, "y": "q"}], inner),
            "tags": pa.array([["t"], [], None], pa.list_(pa.string())),
            "notes": pa.array([{"k": 1}, {}, None], pa.map_(pa.string(), pa.int64())),
            "at": pa.array([0, 1, None], pa.timestamp("us")),
            "at_utc": pa.array([0, 1, None], pa.timestamp("us", tz="UTC")),
            "day": pa.array([0, 1, None], pa.date32()),
        }
    )
    table = catalog.create_table("n.t", first.schema)
    with table.update_spec() as spec:
        spec.add_field("region", IdentityTransform(), "region")
    table.append(first)
    table.append(first.set_column(0, "id", pa.array([4, 5, 6], pa.int64())))
    before = table.current_snapshot()
    assert before is not None
    table.delete("id = 2")
    with table.update_schema() as schema:
        schema.rename_column("price", "cost in EUR")
        schema.delete_column("tags")
        schema.rename_column(("point", "y"), "label")
        schema.add_column("size", LongType())
    later = first.set_column(0, "id", pa.array([7, 8, 9], pa.int64())).drop_columns(["tags"])
    table.append(
        later.rename_columns(["id", "region", "cost in EUR", *later.column_names[3:]])
        .set_column(3, "point", pa.nulls(3, pa.struct([("x", pa.int32()), ("label", pa.string())])))
        .append_column("size", pa.array([1, 2, 3]))
    )
    take(repo, warehouse / "n" / "t")
    frame = repo.read("main", TABLE)
    assert frame.columns == [each.name for each in table.schema().fields]
    found, expected = rows_of(frame), rows_in(table)
    assert [[str(value) for value in row] for row in found] == [
        [str(value).replace("+00:00", "") for value in row] for row in expected
    ]
    assert rows_of(frame.where("id >= 7 and region = 'a'").select("id", "size")) == [(7, 1)]
    old = repo.read("main", TABLE, "iceberg", versionAsOf=before.snapshot_id)
    assert sorted(row.id for row in old.select("id").collect()) == [1, 2, 3, 4, 5, 6]
    assert "tags" in old.columns
    with pytest.raises(InvalidInputError, match="has no snapshot 5"):
        repo.read("main", TABLE, "iceberg", versionAsOf=5)
    with pytest.raises(InvalidInputError, match="at most one of the options"):
        repo.read("main", TABLE, "iceberg", timestampAsOf="2024-01-01")


@pytest.mark.system
def test_columns_named_like_ids_of_others(repo: Repository, tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    names = ("c2", "c1", "field-4", "field-3", "col-5")
    inner = pa.array([{"c7": 1, "c6": "x"}])
    columns = [pa.array([1]), pa.array(["a"]), pa.array([2]), pa.array(["b"]), inner]
    rows = pa.table(dict(zip(names, columns, strict=True)))
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    take(repo, tmp_path / "n" / "t")
    assert rows_of(repo.read("main", TABLE)) == [(1, "a", 2, "b", {"c7": 1, "c6": "x"})]
    assert rows_of(repo.read("main", TABLE).where("`field-3` = 'b' AND c1 = 'a'")) == rows_in(table)


@pytest.mark.system
def test_deletes_of_both_kinds(repo: Repository, tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", 3)
    table.commit(table.data("a", *range(9)), table.data("b", *range(10, 19)), table.data("c", 20))
    table.commit(
        *table.vectors("v", {"a": [0, 8], "b": [3]}), table.position_deletes("d", ("c", 0))
    )
    take(repo, table.folder)
    ids = repo.read("main", TABLE).select("id")
    assert {row.id for row in ids.collect()} == {*range(1, 8), *range(10, 19)} - {13}
    assert ids.count() == 15
    assert repo.read("main", TABLE, versionAsOf=1).count() == 19


@pytest.mark.system
def test_position_deletes_of_version_2(repo: Repository, tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", 2)
    table.commit(table.data("a", *range(900)), table.data("b", 1000, 1001))
    take(repo, table.folder)
    # A vector as long as this is in a file of the view.
    table.commit(table.position_deletes("d", *(("a", row) for row in range(1, 900, 3))))
    take(repo, table.folder)
    assert repo.read("main", TABLE).where("id < 900").count() == 600
    assert repo.read("main", TABLE).where("id % 3 = 1").count() == 1
    diff = repo.diff_table("main~1", "main", TABLE, key=["id"])
    assert diff.counts().removed == 300
    assert diff.left_files == (f"{TABLE}/data/a",)


@pytest.mark.system
def test_a_first_version_and_an_empty_table(repo: Repository, tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", 1)
    take(repo, table.folder)
    assert repo.read("main", TABLE).columns == ["id", "name"]
    assert repo.read("main", TABLE).count() == 0
    table.commit(table.data("a", 1, 2))
    take(repo, table.folder)
    assert rows_of(repo.read("main", TABLE)) == [(1, "1"), (2, "2")]
    assert repo.view("main", TABLE) == repo.view("main", TABLE, "iceberg")


def test_what_is_refused(repo: Repository, spark: SparkSession, tmp_path: Path) -> None:
    table, main = HandTable(tmp_path / "t", 3), repo.branch("main")
    table.commit(table.data("a", 1, 2))
    take(repo, table.folder)
    if not has_iceberg():
        with pytest.raises(MissingDependencyError, match="cannot write Iceberg tables: "):
            main.write(spark.range(1), TABLE, format="iceberg", mode="append")
    with pytest.raises(InvalidInputError, match="in a table of the format Iceberg"):
        repo.read("main", f"{TABLE}/data")
    with pytest.raises(ObjectNotFoundError, match="no Iceberg table under 'tables/u'"):
        repo.read("main", "tables/u", "iceberg")
    table.commit(table.parquet("plain", pa.table({"id": [3], "name": ["no field ids"]})))
    take(repo, table.folder)
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|field Ids"):
        repo.read("main", TABLE).collect()
    table.write(**{"format-version": 9})
    with pytest.raises(InvalidImportError, match="has the format version 9, and sparklake reads"):
        take(repo, table.folder)
    for each in (table.folder / "metadata").iterdir():
        main.put(f"{TABLE}/metadata/{each.name}", each.read_bytes())
    with pytest.raises(InvalidInputError, match=r"'tables/t' at 'main' .* format version 9"):
        repo.read("main", TABLE)
