"""Iceberg tables in a bucket, which Iceberg writes through Spark's S3 client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sparklake import Lake, Repository
from tests.spark.iceberg.conftest import metadata_of
from tests.spark.iceberg.test_writes import TABLE, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "local"
"""Spark runs writers alone: its Python workers lack the environment of the S3 server."""


@pytest.fixture
def repo(lake: Lake, names: Iterator[str], bucket: str) -> Repository:
    return lake.create_repository(next(names), f"s3://{bucket}/lake", range_records=8)


def test_a_table_in_a_bucket(repo: Repository, spark: SparkSession, with_s3a: None) -> None:
    main, rows = repo.branch("main"), spark.range(4).selectExpr("id", "'k' || id % 2 AS k")
    main.write(rows, TABLE, "iceberg", **{"write.delete.mode": "merge-on-read"})
    main.commit("create")
    dev = repo.create_branch("dev", "main")
    with dev.edit_iceberg(TABLE) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 0")
    dev.commit("delete")
    main.write(spark.range(8, 9).selectExpr("id", "'new' AS k"), TABLE, "iceberg", "append")
    main.commit("append")
    repo.merge("dev", "main")
    expected = [(1, "k1"), (2, "k0"), (3, "k1"), (8, "new")]
    address = metadata_of(repo, "main", TABLE).address
    assert address.startswith(f"{repo.info.storage_namespace}/data/")
    by_jar = spark.read.format("iceberg").load(address.replace("s3://", "s3a://"))
    assert rows_of(by_jar) == rows_of(repo.read("main", TABLE)) == expected
    with main.edit_iceberg(TABLE) as table:
        spark.sql(f"UPDATE {table} SET k = 'late' WHERE id = 8")
    assert rows_of(repo.read("main", TABLE)) == [*expected[:-1], (8, "late")]
    main.commit("update")
    main.revert("main")
    assert rows_of(repo.read("main", TABLE)) == expected
