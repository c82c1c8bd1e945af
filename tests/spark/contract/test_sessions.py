"""Sessions bound to a ref: names of tables resolve there first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Lake, Repository
from sparklake.errors import InvalidUriError, ObjectNotFoundError, RefNotFoundError

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


def test_a_session_needs_a_ref(lake: Lake, repo: Repository) -> None:
    assert repr(lake.session(f"lakefs://{repo.name}/main")).startswith("LakeSession(lakefs://")
    with pytest.raises(RefNotFoundError):
        lake.session(f"lakefs://{repo.name}/nowhere")
    with pytest.raises(InvalidUriError):
        lake.session(f"lakefs://{repo.name}/main/tables")
