"""Sessions bound to a ref: names of tables resolve there first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.utils import is_remote

from sparklake import Lake, Repository
from sparklake.errors import (
    InvalidInputError,
    InvalidUriError,
    ObjectNotFoundError,
    RefNotFoundError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.connect
def test_names_are_tables_at_the_ref_first(
    lake: Lake, repo: Repository, spark: SparkSession
) -> None:
    main, dev = (
        lake.session(f"lakefs://{repo.name}/{ref}")
        for ref in ("main", "dev")
        if repo.create_branch("dev", exist_ok=True)
    )
    rows = spark.sql("SELECT 1 AS id, 'main' AS place")
    main.write(rows).saveAsTable("orders")
    dev.write(spark.sql("SELECT 2 AS id, 'dev' AS place")).saveAsTable("`tables/orders`")
    assert values(main.table("orders")) == values(main.sql("SELECT * FROM orders")) == [(1, "main")]
    assert values(dev.read.table("tables/orders")) == [(2, "dev")]
    dev.sql("CREATE TABLE orders USING parquet AS SELECT id + 1 AS id FROM `tables/orders`")
    joined = f"SELECT a.id, b.id FROM orders a, lakefs.`{repo.name}`.main.orders b"
    assert values(dev.sql(joined)) == [(3, 1)]
    with pytest.raises(ObjectNotFoundError):
        dev.table("nothing")
    assert [each.path for each in repo.objects("main") if "tables/" in each.path] == []
    dev.createDataFrame([(9,)], "id int").createOrReplaceTempView("hiding")
    assert values(dev.table("hiding")) == values(dev.sql("SELECT * FROM hiding")) == [(9,)]


@pytest.mark.system
def test_views_are_read_but_never_written(
    lake: Lake, repo: Repository, spark: SparkSession, tmp_path: Path
) -> None:
    main = lake.session(f"lakefs://{repo.name}/main")
    rows = spark.sql("SELECT 1 AS id")
    for name in ("mine", "missing"):
        rows.write.parquet(str(tmp_path / name))
        # Spark inserts into a view of files.
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    main.write(rows).format("delta").saveAsTable("mine")
    main.sql("INSERT INTO mine SELECT id + 1 FROM mine")
    main.write(rows).insertInto("mine")
    with pytest.raises(InvalidInputError, match="no table"):
        main.sql("INSERT INTO missing VALUES (2)")
    assert values(main.sql("SELECT * FROM mine")) == [(1,)], "views come first in reads"
    assert values(repo.read("main", "mine")) == [(1,), (1,), (2,)]
    for name in ("mine", "missing"):
        spark.catalog.refreshTable(name)
        assert values(spark.table(name)) == [(1,)]
        spark.catalog.dropTempView(name)


def test_a_session_needs_a_ref(lake: Lake, repo: Repository) -> None:
    assert repr(lake.session(f"lakefs://{repo.name}/main")).startswith("LakeSession(lakefs://")
    with pytest.raises(RefNotFoundError):
        lake.session(f"lakefs://{repo.name}/nowhere")
    with pytest.raises(InvalidUriError):
        lake.session(f"lakefs://{repo.name}/main/tables")


def test_a_name_that_the_ref_lacks_is_read_from_the_catalog(
    lake: Lake, repo: Repository, spark: SparkSession
) -> None:
    main = lake.session(f"lakefs://{repo.name}/main")
    spark.sql("CREATE TABLE both USING parquet AS SELECT 5 AS id")
    try:
        assert values(main.table("both")) == values(main.table("`both`")) == [(5,)]
        assert values(main.sql("SELECT both.id FROM both")) == [(5,)]
        with pytest.raises(InvalidInputError, match="no table"):
            main.sql("INSERT INTO both VALUES (6)")
        with pytest.raises(InvalidInputError, match="existing table"):
            main.write(main.table("both")).insertInto("both")
        main.write(spark.sql("SELECT 7 AS id")).saveAsTable("both")
        main.write(spark.sql("SELECT 8 AS id")).insertInto("both")
        assert values(main.table("both")) == values(main.sql("SELECT * FROM both")) == [(7,), (8,)]
        assert values(spark.table("both")) == [(5,)]
    finally:
        spark.sql("DROP TABLE both")


@pytest.mark.system
def test_delta_tables_outside_of_the_lake_open_in_a_session(
    lake: Lake, repo: Repository, spark: SparkSession, tmp_path: Path
) -> None:
    from delta.tables import DeltaTable

    main, path = lake.session(f"lakefs://{repo.name}/main"), str(tmp_path / "table")
    main.write(spark.sql("SELECT 1 AS id")).format("delta").save(path)
    assert values(main.read.load(path, "delta")) == [(1,)]
    if not is_remote():  # On Spark Connect, DeltaTable accepts only Spark's own session.
        session: Any = main
        DeltaTable.forPath(session, path).update(set={"id": "id + 1"})
        assert values(main.read.load(path, "delta")) == [(2,)]
