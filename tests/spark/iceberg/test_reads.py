"""The reader without the jar shows what the jar shows, of tables that the jar wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.errors import InvalidInputError
from sparklake.frames.tables import spark_sources
from tests.spark.iceberg.conftest import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


@pytest.mark.parametrize(
    ("version", "mode"), [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]
)
def test_the_jars_tables(
    repo: Repository, spark: SparkSession, warehouse: Path, version: int, mode: str
) -> None:
    name = f"{CATALOG}.v{version}_{mode.replace('-', '_')}"
    modes = ", ".join(f"'write.{each}.mode'='{mode}'" for each in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {name} (id bigint, k string, price double) PARTITIONED BY (k) "
        f"TBLPROPERTIES ('format-version'='{version}', {modes})"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, 'k' || id % 2, id / 2 FROM range(20)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (3, 4)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN size int")
    spark.sql(f"UPDATE {name} SET size = 7, k = 'k2' WHERE id = 5")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO kind")  # Without a new snapshot.
    repo.branch("main").import_objects(str(warehouse / name.partition(".")[2]), "tables/t")
    by_jar = repo.read("main", "tables/t")
    assert set(by_jar.collect()) == set(spark.table(name).collect())
    rows = spark.read.format("delta").load(repo.view("main", "tables/t"))
    assert rows.columns == ["id", "kind", "price", "size"]
    assert set(rows.collect()) == set(spark.table(name).collect())
    assert rows.count() == 18


def test_reads_in_a_session_without_delta(
    repo: Repository, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.branch("main").write(spark.range(3), "tables/t", "iceberg")
    monkeypatch.setattr(spark_sources, "has_delta", lambda _: False)
    monkeypatch.setattr(spark_sources, "check_delta", lambda _: pytest.fail("it needs Delta"))
    assert sorted(repo.read("main", "tables/t").collect()) == [(0,), (1,), (2,)]
    # Without a format, the table's own.
    repo.branch("main").write(spark.range(3, 5), "tables/t", mode="append")
    assert repo.read("main", "tables/t").count() == 5


def test_what_only_the_jar_reads(repo: Repository, spark: SparkSession, warehouse: Path) -> None:
    name, main, path = f"{CATALOG}.in_orc", repo.branch("main"), "tables/t"
    spark.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('write.format.default'='orc')")
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(3)")
    main.import_objects(str(warehouse / "in_orc"), path)
    (snapshot,) = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").first()
    with main.edit_iceberg(path) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert sorted(repo.read("main", path).collect()) == [(0,), (2,)]
    assert repo.read("main@", path).count() == 3
    assert repo.read("main", path, "iceberg", versionAsOf=snapshot).count() == 3
    with pytest.raises(InvalidInputError, match="has no snapshot 5"):
        repo.read("main", path, versionAsOf=5)
    with pytest.raises(InvalidInputError, match="files of the format 'orc'"):
        repo.view("main", path)
