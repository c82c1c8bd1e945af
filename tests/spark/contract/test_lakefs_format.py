"""Tables at refs by Spark's own reader and writer, in the format `lakefs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

from sparklake import Lake, Repository
from sparklake.graveler.ports import WriteState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("registered")]

ENGINE = "auto"

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    columns = [
        "int(id) as id",
        "if(id = 3, null, concat('n ', id)) as name",
        "id / 4 as price",
        "timestamp'2024-02-29 23:59:59.123456' + make_interval(0, 0, 0, id) as at",
        "struct(array(id, null) as ids, map('k', date'2024-02-29') as days) as nested",
        "cast(id as decimal(20, 4)) as amount",
        "element_at(array('a b', 'x=é/%', null), int(id % 3 + 1)) as word",
        "date_add(date'2026-07-01', int(id % 2)) as day",
    ]
    return spark.range(0, 8, 1, 2).selectExpr(*columns)


def uri(repo: Repository, path: str = "tables/x") -> str:
    return f"lakefs://{repo.name}/main/{path}"


def load(repo: Repository, spark: SparkSession, path: str = "tables/x") -> DataFrame:
    return spark.read.format("lakefs").load(uri(repo, path))


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.orderBy("id").collect())


@pytest.mark.connect
def test_both_ways_to_write_are_read_by_both_ways_to_read(
    repo: Repository, spark: SparkSession, rows: DataFrame
) -> None:
    main = repo.branch("main")
    main.write(rows, "tables/x", partition_by=["day", "word"])
    writer = rows.write.format("lakefs").option("partitionBy", "day, word").mode("append")
    writer.save(uri(repo))
    expected = values(rows.union(rows))
    for frame in (load(repo, spark), repo.read("main", "tables/x")):
        assert frame.schema.simpleString() == rows.select(frame.columns).schema.simpleString()
        assert values(frame.select(rows.columns)) == expected
    assert [each.state for each in repo.writes()] == []
    rows.where("id < 2").write.format("lakefs").mode("overwrite").save(uri(repo))
    assert values(load(repo, spark)) == values(rows.where("id < 2"))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW x USING lakefs OPTIONS (path '{uri(repo)}')")
    assert [tuple(row) for row in spark.sql("SELECT count(*), max(id) FROM x").collect()] == [
        (2, 1)
    ]


@pytest.mark.system
def test_filters_are_pushed_where_the_session_allows_it(
    registered: Lake, repo: Repository, spark: SparkSession, rows: DataFrame
) -> None:
    repo.branch("main").write(rows, "tables/x", partition_by=["day"])
    spark.conf.set(PUSHDOWN, "true")
    try:
        registered.register()
        some = load(repo, spark).where("day = date'2026-07-02' AND id IN (1, 2, 5) AND price > 0.3")
        assert [(row.id, row.price) for row in some.collect()] == [(5, 1.25)]
        assert load(repo, spark).where("name IS NULL").select("id").collect()[0].id == 3
    finally:
        spark.conf.unset(PUSHDOWN)
        registered.register()


def test_a_write_that_fails_stages_nothing_and_is_abandoned(
    repo: Repository, spark: SparkSession, rows: DataFrame
) -> None:
    failing = rows.select(expr("if(id = 5, raise_error('no such id'), id) AS id"))
    with pytest.raises(Exception, match="no such id"):
        failing.write.format("lakefs").mode("append").save(uri(repo))
    assert [each.state for each in repo.writes()] == [WriteState.ABANDONED]
    assert not repo.branch("main").is_dirty
    spark.createDataFrame([], "id int").write.format("lakefs").mode("append").save(uri(repo))
    assert load(repo, spark).columns == ["id"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mergeSchema": "true"}, "the format lakefs has no option 'mergeschema'"),
        ({"path": "lakefs://nobody/main/x"}, "there is no repository 'nobody'"),
        ({"path": "lakefs://{repo}/main/nothing"}, "has no data file under 'nothing'"),
    ],
)
def test_what_cannot_be_read_says_why(
    repo: Repository, spark: SparkSession, options: dict[str, str], words: str
) -> None:
    path = options.pop("path", uri(repo)).format(repo=repo.name)
    with pytest.raises(Exception, match=words):
        spark.read.format("lakefs").options(**options).load(path).collect()


@pytest.mark.system
def test_deleted_rows_of_a_partitioned_delta_table_are_not_read(
    repo: Repository, spark: SparkSession, rows: DataFrame
) -> None:
    main = repo.branch("main")
    spark.conf.set("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
    try:
        main.write(rows.coalesce(1), "tables/x", format="delta", partition_by=["day"])
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.enableDeletionVectors")
    with main.edit_delta("tables/x") as location:
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id IN (1, 4)")
    expected = values(rows.where("id NOT IN (1, 4)"))
    assert values(load(repo, spark)) == values(repo.read("main", "tables/x")) == expected
    with pytest.raises(Exception, match="is a Delta table on 'main': write to it with the format"):
        rows.write.format("lakefs").mode("append").save(uri(repo))
