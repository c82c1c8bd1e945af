"""Tables come from a catalog of the session, and leave to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.errors import InvalidInputError
from tests.spark.iceberg.conftest import CATALOG
from tests.spark.iceberg.test_writes import TABLE, check_same, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"
COMPANY = "company"


@pytest.fixture(scope="module")
def company(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Is a catalog that registers tables, unlike Hadoop's."""
    settings = {
        "catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "warehouse": tmp_path_factory.mktemp("company").as_uri(),
        "cache-enabled": "false",
    }
    spark.conf.set(f"spark.sql.catalog.{COMPANY}", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{COMPANY}.{name}", value)
    spark.sql(f"CREATE NAMESPACE {COMPANY}.sales")
    return COMPANY


def test_a_round_trip(
    repo: Repository, spark: SparkSession, company: str, warehouse: Path, tmp_path: Path
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
    repo.register("main", TABLE, str(tmp_path / "out"), f"{company}.sales.orders", run=True)
    assert rows_of(spark.table(f"{company}.sales.orders")) == rows
    spark.sql(f"INSERT INTO {company}.sales.orders VALUES (9, 'k9')")
    spark.sql(f"DELETE FROM {company}.sales.orders WHERE id = 0")
    spark.sql(f"CALL {company}.system.expire_snapshots('sales.orders', TIMESTAMP '2999-01-01')")
    outside = rows_of(spark.table(f"{company}.sales.orders"))
    assert outside == sorted([each for each in rows if each[0]] + [(9, "k9")], key=repr)
    assert check_same(repo, spark) == rows
    main.import_objects(f"catalog:{company}.sales.orders", TABLE)
    assert check_same(repo, spark) == outside
