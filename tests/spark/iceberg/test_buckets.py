"""Iceberg tables in a bucket, which Iceberg writes through Spark's S3 client."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from sparklake import Repository
from sparklake.metadata.iceberg.documents import decode_document
from sparklake.metadata.iceberg.references import references
from sparklake.verbs.iceberg.tree_table import open_iceberg, read_checked
from sparklake.verbs.tables.version import open_table
from tests.spark.iceberg.conftest import metadata_of
from tests.spark.iceberg.test_writes import TABLE, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "local"
"""Spark runs writers alone: its Python workers lack the environment of the S3 server."""

IN_BUCKET = True


def check_schemes(repo: Repository, scheme: str) -> None:
    """Verify the spelling of the bucket in the metadata, in manifests, and in rows of deletes."""
    iceberg = open_iceberg(open_table(repo._context, "main", TABLE))
    document = read_checked(iceberg.table, iceberg.name)

    def read(path: str) -> bytes:
        return read_checked(iceberg.table, iceberg.path(path))

    paths = [path for path, _ in references(decode_document(document), read, lambda _: True)]
    deletes = [each for each in paths if each.endswith("-deletes.parquet")]
    deleted = [pq.read_table(io.BytesIO(read(each))).column("file_path") for each in deletes]
    assert deleted
    paths += [path for each in deleted for path in each.to_pylist()]
    paths += re.findall(r'"(s3[a-z]?://[^"]+)"', document.decode())
    assert {each.partition("://")[0] for each in paths} == {scheme}


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
    check_schemes(repo, "s3a")
    main.revert("main")
    assert rows_of(repo.read("main", TABLE)) == expected


def test_an_imported_table_whose_metadata_has_s3(
    repo: Repository, bucket: str, spark: SparkSession, with_s3a: None
) -> None:
    """Amazon's engines write such paths, and its catalogs name them."""
    settings = {"type": "hadoop", "warehouse": f"s3://{bucket}/outside", "cache-enabled": "false"}
    spark.conf.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    spark.conf.set("spark.sql.catalog.emr", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.emr.{name}", value)
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(
        f"CREATE TABLE emr.db.orders USING iceberg TBLPROPERTIES ({modes}) "
        "AS SELECT /*+ COALESCE(1) */ id FROM range(4)"
    )
    spark.sql("DELETE FROM emr.db.orders WHERE id = 3")
    main = repo.branch("main")
    main.import_objects("catalog:emr.db.orders", TABLE)
    dev = repo.create_branch("dev", "main")
    with dev.edit_iceberg(TABLE) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 2")
    dev.commit("delete")
    with main.edit_iceberg(TABLE) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 1")
        spark.sql(f"INSERT INTO {table} VALUES (7)")
    main.commit("delete and append")
    repo.merge("dev", "main")
    assert rows_of(repo.read("main", TABLE)) == [(0,), (7,)]
    address = metadata_of(repo, "main", TABLE).address
    assert rows_of(spark.read.format("iceberg").load(address)) == [(0,), (7,)]
    assert rows_of(spark.table("emr.db.orders")) == [(0,), (1,), (2,)]
    check_schemes(repo, "s3")
