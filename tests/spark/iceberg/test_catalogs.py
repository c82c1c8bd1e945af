"""Tables come from a catalog of the session, and leave to one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from sparklake import Repository
from sparklake.errors import InvalidInputError, ReplacementError
from tests.spark.iceberg.conftest import CATALOG
from tests.spark.iceberg.test_writes import TABLE, check_same, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


def test_a_round_trip(
    repo: Repository, spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    name, main = f"{CATALOG}.round_trip", repo.branch("main")
    spark.sql(f"CREATE TABLE {name} (id bigint, k string) PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {name} SELECT id, 'k' || id % 2 FROM range(4)")
    with pytest.raises(InvalidInputError, match="is not an Iceberg table of the Spark session"):
        main.import_objects(f"catalog:{CATALOG}.nothing", TABLE)
    main.import_objects(f"catalog:{name}", TABLE)
    with main.edit_iceberg(TABLE) as table:
        spark.sql(f"UPDATE {table} SET k = 'new' WHERE id = 3")
    main.commit("edit")
    rows = check_same(repo, spark)
    repo.export("main", str(tmp_path / "out"))
    result = repo.register("main", TABLE, str(tmp_path / "out"), "company.sales.orders")
    assert rows_of(spark.read.format("iceberg").load(result.metadata)) == rows
    company = SqlCatalog("company", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    company.create_namespace("sales")
    orders = company.register_table("sales.orders", result.metadata)
    orders.append(pa.table({"id": [9], "k": ["k9"]}))
    orders.delete("id = 0")
    outside = rows_of(spark.read.format("iceberg").load(orders.metadata_location))
    assert outside == sorted([*(each for each in rows if each[0]), (9, "k9")], key=repr)
    assert check_same(repo, spark) == rows
    with pytest.raises(ReplacementError, match="that this table lacks"):
        main.import_objects(orders.metadata_location, TABLE)
    assert check_same(repo, spark) == rows
    main.import_objects(orders.metadata_location, TABLE, replace=True)
    assert check_same(repo, spark) == outside


def test_position_deletes_leave(
    repo: Repository, spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    name, main = f"{CATALOG}.with_deletes", repo.branch("main")
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE TABLE {name} (id bigint, k string) TBLPROPERTIES ({modes})")
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'k' || id % 2 FROM range(6)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    main.import_objects(f"catalog:{name}", TABLE)
    (older,) = spark.sql(f"SELECT max_by(snapshot_id, made_current_at) FROM {name}.history").first()
    with main.edit_iceberg(TABLE) as table:
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        call = f"CALL {table.catalog}.system.rewrite_data_files"
        spark.sql(f"{call}(table => '{table}', options => {options})")
        spark.sql(f"DELETE FROM {table} WHERE id = 4")
    main.commit("compact and delete")
    rows, out = check_same(repo, spark), tmp_path / "out"
    rows_before = rows_of(repo.read("main", TABLE, versionAsOf=older))
    assert {each[0] for each in rows_before} - {each[0] for each in rows} == {4}
    repo.export("main", str(out))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.sales")
    registered = f"{CATALOG}.sales.orders"
    result = repo.register("main", TABLE, str(out), registered, run=True)
    for each in (tmp_path / "namespace", warehouse / "with_deletes"):
        shutil.rmtree(each)
    assert rows_of(spark.table(registered)) == rows
    outside = spark.sql(f"SELECT * FROM {registered} VERSION AS OF {older}")
    assert rows_of(outside) == rows_before
    by_python = StaticTable.from_metadata(result.metadata)
    for number, expected in ((None, rows), (older, rows_before)):
        found = by_python.scan(snapshot_id=number).to_arrow().to_pylist()
        assert sorted((tuple(each.values()) for each in found), key=repr) == expected
    spark.sql(f"DELETE FROM {registered} WHERE id = 0")
    assert rows_of(spark.table(registered)) == [each for each in rows if each[0]]
