"""Iceberg tables are written on branches: by DataFrames, and by SQL in an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import StaticTable

from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError
from tests.spark.iceberg.conftest import metadata_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"
TABLE = "tables/orders"


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def check_same(repo: Repository, spark: SparkSession, ref: str = "main") -> list[tuple[Any, ...]]:
    """Read with the jar, without it, and with pyiceberg; return the rows."""
    place = metadata_of(repo, ref, TABLE).address
    by_jar = rows_of(spark.read.format("iceberg").load(place))
    assert rows_of(repo.read(ref, TABLE)) == by_jar
    assert rows_of(spark.read.format("delta").load(repo.view(ref, TABLE))) == by_jar
    by_python = StaticTable.from_metadata(place).scan().to_arrow().to_pylist()
    assert sorted((tuple(each.values()) for each in by_python), key=repr) == by_jar
    return by_jar


@pytest.mark.connect
def test_dataframes(repo: Repository, spark: SparkSession) -> None:
    main = repo.branch("main")
    rows = spark.range(4).selectExpr("id", "'k' || id % 2 AS k")
    options = {"format": "iceberg", "partition_by": ["k"]}
    with (
        pytest.raises(InvalidInputError, match="'main' has no Iceberg table"),
        main.edit_iceberg(TABLE),
    ):
        pass
    assert main.write(rows, TABLE, **options, **{"write.delete.mode": "merge-on-read"}).files == 4
    assert check_same(repo, spark) == [(0, "k0"), (1, "k1"), (2, "k0"), (3, "k1")]
    main.commit("create")
    main.write(spark.createDataFrame([(9, "k9")], rows.schema), TABLE, "iceberg", "append")
    assert (9, "k9") in check_same(repo, spark)
    one = spark.createDataFrame([(5, "k1")], rows.schema)
    main.write(one, TABLE, "iceberg", "overwrite-partitions")
    assert check_same(repo, spark) == [(0, "k0"), (2, "k0"), (5, "k1"), (9, "k9")]
    main.write(one, TABLE, "iceberg", "overwrite")
    assert check_same(repo, spark) == [(5, "k1")]
    assert main.write(one, TABLE, "iceberg", "ignore").files == 0
    with pytest.raises(InvalidInputError, match="is partitioned by k on 'main'"):
        main.write(one, TABLE, "iceberg", "append", partition_by=["id"])
    with pytest.raises(InvalidInputError, match="format-version are properties of new tables"):
        main.write(one, TABLE, "iceberg", "append", **{"format-version": 3})
    assert len(check_same(repo, spark, "main@")) == 4
    main.commit("more")
    main.revert("main")
    assert len(check_same(repo, spark)) == 4


@pytest.mark.connect
def test_sql(lake: Lake, repo: Repository, spark: SparkSession) -> None:
    main, name = repo.branch("main"), f"lakefs.`{repo.info.name}`.main.`{TABLE}`"
    lake.sql(f"CREATE TABLE {name} USING iceberg AS SELECT id, 'k' AS k FROM range(3)")
    lake.sql(f"INSERT INTO {name} VALUES (9, 'nine')")
    lake.sql(f"DELETE FROM {name} WHERE id = 1")
    matched = "WHEN MATCHED THEN UPDATE SET k = 'm'"
    lake.sql(f"MERGE INTO {name} t USING {name} s ON t.id = s.id + 2 {matched}")
    lake.sql(f"ALTER TABLE {name} RENAME COLUMN k TO label")
    assert check_same(repo, spark) == [(0, "k"), (2, "m"), (9, "nine")]
    assert main.is_dirty


def test_replaced_formats(repo: Repository, spark: SparkSession) -> None:
    main, rows = repo.branch("main"), spark.range(2)
    main.write(rows, TABLE)
    with pytest.raises(InvalidInputError, match="no Iceberg metadata"):
        main.write(rows, TABLE, "iceberg", "append")
    main.write(rows, TABLE, "iceberg", "overwrite")
    assert check_same(repo, spark) == [(0,), (1,)]
    assert {each.path.split("/")[2] for each in repo.objects("main", TABLE)} == {"data", "metadata"}
    with pytest.raises(InvalidInputError, match="Read the whole table"):
        main.write(rows, TABLE, "parquet", "append")
