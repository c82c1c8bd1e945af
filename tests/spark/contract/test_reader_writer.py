"""Readers and writers of Spark's shape: for paths in a lake, and for any other path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidUriError,
    ObjectNotFoundError,
)
from sparklake.session import is_connect_3
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(1, 5, 1, 1).selectExpr(
        "int(id) AS id", "concat('n ', id) AS name", "concat('2026-07-0', id % 2 + 1) AS day"
    )


@pytest.fixture
def root(repo: Repository) -> str:
    return f"lakefs://{repo.name}/main/"


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.connect
def test_a_job_runs_on_a_branch_as_on_plain_paths(
    lake: Lake, repo: Repository, spark: SparkSession, rows: DataFrame, root: str, tmp_path: Path
) -> None:
    def job(read: Callable[[], Any], write: Callable[[DataFrame], Any], root: str) -> list[Any]:
        write(rows).partitionBy("day").parquet(f"{root}orders")
        write(rows).mode("append").partitionBy(["day"]).option("compression", "gzip").save(
            f"{root}orders", format="parquet"
        )
        write(rows.select("id", "name")).option("header", True).csv(f"{root}raw", mode="overwrite")
        days = [f"{root}orders/day=2026-07-0{number}" for number in (1, 2)]
        return [
            values(read().parquet(f"{root}orders").select("id", "name", "day")),
            values(read().option("basePath", f"{root}orders").parquet(days[0])),
            values(read().parquet(*days)),
            values(read().schema("name STRING, id INT NOT NULL, more INT").parquet(days[0])),
            values(read().csv(f"{root}raw", schema="id int, name string", header=True)),
            read().option("inferSchema", "true").csv([f"{root}raw"], header=True).dtypes,
            read().schema("day string, id long").parquet(f"{root}orders").dtypes,
        ]

    plain = job(lambda: spark.read, lambda frame: frame.write, f"{tmp_path}/")
    assert job(lambda: lake.read, lake.write, root) == plain
    assert job(lambda: lake.read, lake.write, f"{tmp_path}/again/") == plain
    assert len(plain[0]) == 8


@pytest.mark.system
def test_a_format_is_found_where_the_path_has_one(
    lake: Lake, repo: Repository, spark: SparkSession, rows: DataFrame, root: str
) -> None:
    table = f"{root}tables/d"
    lake.write(rows).format("delta").save(table)
    done = lake.write(rows).mode("append").saveAsTable(table)
    assert done is not None
    assert done.files
    assert lake.read.table(table).count() == lake.read.load(table).count() == 8
    branch = repo.branch("main")
    branch.write(rows, "tables/d", mode="append")
    assert lake.read.table(table).count() == 12
    with pytest.raises(InvalidUriError, match=f"write {table}"):
        lake.read.load(table.replace("//", "/", 1))
    assert lake.read.option("versionAsOf", 0).load(path=table).count() == 4
    assert values(lake.read.option("path", table).load().distinct()) == values(rows)
    with pytest.raises(InvalidInputError, match=r"without .schema\(...\)"):
        lake.read.schema("id int").load(table)
    with pytest.raises(InvalidInputError, match="Delta tables are read one by one"):
        lake.read.load([table, table])
    rows.createOrReplaceTempView("rows_of_a_view")
    assert values(lake.read.table("rows_of_a_view")) == values(rows)


@pytest.mark.system
def test_arguments_are_those_of_spark(
    lake: Lake, spark: SparkSession, rows: DataFrame, root: str, tmp_path: Path
) -> None:
    def job(read: Callable[[], Any], write: Callable[[DataFrame], Any], root: str) -> list[Any]:
        write(rows).parquet(f"{root}orders", "append", "day")
        write(rows.select("id", "name")).csv(f"{root}raw", "overwrite", None, "|")
        results = [
            values(read().parquet(f"{root}orders").where("day = '2026-07-01'").drop("day")),
            values(read().csv(f"{root}raw", None, "|")),
            values(read().csv(path=f"{root}raw", schema="id int, name string", sep="|")),
        ]
        if not IS_3:
            write(rows).xml(f"{root}pages", "row")
            results.append(values(read().xml(f"{root}pages", "row", "id int, name string")))
        return results

    plain = job(lambda: spark.read, lambda frame: frame.write, f"{tmp_path}/")
    assert job(lambda: lake.read, lake.write, root) == plain
    assert job(lambda: lake.read, lake.write, f"{tmp_path}/again/") == plain
    with pytest.raises(TypeError):
        lake.write(rows).parquet(f"{root}orders", "append", "day", "gzip", "more")
    if not is_connect_3():
        texts = ['{"id": 1}']
        lines = spark.sparkContext.parallelize(texts) if IS_3 else text_rows(spark, texts)
        assert values(lake.read.json(lines, "id long")) == [(1,)]


def text_rows(spark: SparkSession, texts: list[str]) -> DataFrame:
    return spark.createDataFrame([(each,) for each in texts], "value string")


@pytest.mark.system
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_rows_are_inserted_by_position(
    lake: Lake, rows: DataFrame, root: str, table_format: str
) -> None:
    table = f"{root}tables/o"
    days = rows.selectExpr("id", "name", "concat('d', id % 2) AS day")
    lake.write(days).saveAsTable(table, table_format, "overwrite", "day")
    more = rows.selectExpr("CAST(id + 10 AS bigint)", "name AS other", "'d7'")
    lake.write(more).insertInto(table)
    assert lake.read.table(table).dtypes == days.dtypes
    assert values(lake.read.table(table)) == values(days.union(more))
    lake.write(more.limit(1)).mode("overwrite").insertInto(table)
    assert values(lake.read.table(table)) == values(more.limit(1))
    with pytest.raises(InvalidInputError, match="do not match"):
        lake.write(rows.select("id")).insertInto(table, overwrite=True)
    with pytest.raises(InvalidInputError, match="existing table"):
        lake.write(rows).insertInto(f"{root}nothing")


@pytest.mark.parametrize("method", ["bucketBy", "sortBy", "clusterBy"])
def test_layouts_of_the_catalog_are_refused(
    lake: Lake, repo: Repository, rows: DataFrame, root: str, method: str
) -> None:
    columns = (4, "id") if method == "bucketBy" else ("id",)
    with pytest.raises(InvalidInputError, match=f"{method} is not possible for 'lakefs://"):
        getattr(lake.write(rows), method)(*columns).parquet(f"{root}o")
    assert not repo.branch("main").is_dirty


@pytest.mark.system
def test_buckets_of_other_tables_are_those_of_spark(
    lake: Lake, spark: SparkSession, rows: DataFrame
) -> None:
    lake.write(rows).bucketBy(4, "id").sortBy("name").saveAsTable("in_buckets", "parquet")
    described = {
        each.col_name: each.data_type for each in spark.sql("DESC EXTENDED in_buckets").collect()
    }
    spark.sql("DROP TABLE in_buckets")
    assert described["Num Buckets"] == "4"
    assert described["Sort Columns"] == "[`name`]"


def test_modes_and_keys(lake: Lake, repo: Repository, rows: DataFrame, root: str) -> None:
    path = f"{root}tables/o"
    for _ in range(2):
        lake.write(rows).option("once", "day 1").mode("append").parquet(path)
    assert lake.read.parquet(path).count() == 4
    with pytest.raises(AlreadyExistsError):
        lake.write(rows).parquet(path)
    ignored = lake.write(rows).mode("ignore").parquet(path)
    assert ignored is not None
    assert ignored.files == 0
    with pytest.raises(InvalidInputError, match="types of the rows differ"):
        lake.write(rows.selectExpr("string(id)", "name", "day")).mode("append").parquet(path)
    unchecked = lake.write(rows.selectExpr("string(id)", "name", "day")).mode("append")
    assert unchecked.option("SchemaCheck", "false").parquet(path)
    with pytest.raises(InvalidInputError, match="'once' needs a path"):
        lake.write(rows).option("once", "x").parquet("/tmp/nowhere")


def test_a_file_is_read_as_a_folder_is(
    lake: Lake, repo: Repository, spark: SparkSession, rows: DataFrame, root: str
) -> None:
    main = repo.branch("main")
    main.put("raw/a.csv", b"id,name\n1,one\n")
    main.commit("a")
    main.put("raw/b.csv", b"id,name\n2,two\n")
    main.put("raw/a.csv.old", b"id,name\n3,three\n")
    read = lake.read.option("header", "true")
    assert values(read.csv(f"{root}raw/a.csv")) == [("1", "one")]
    assert values(read.csv([f"{root}raw/b.csv", f"{root}raw/a.csv"])) == [
        ("1", "one"),
        ("2", "two"),
    ]
    assert values(lake.read.text(f"{root}raw/b.csv")) == [("2,two",), ("id,name",)]
    lake.write(rows.coalesce(1)).format("delta").save(f"{root}d")
    (file,) = [each.path for each in repo.objects("main", "d/") if each.path.endswith(".parquet")]
    with pytest.raises(InvalidInputError, match="only its log determines"):
        lake.read.parquet(root + file)


def test_what_cannot_be_read_is_refused(lake: Lake, rows: DataFrame, root: str) -> None:
    lake.write(rows).partitionBy("day").parquet(f"{root}o")
    with pytest.raises(InvalidInputError, match="read them separately"):
        lake.read.parquet(f"{root}o", "/tmp/o")
    with pytest.raises(ObjectNotFoundError, match="no data file under 'nothing'"):
        lake.read.parquet(f"{root}o", f"{root}nothing")
    for base, path in ((f"{root}o", f"{root}p/day=1"), (f"{root}o", f"{root}o/2026-07-01")):
        with pytest.raises(InvalidInputError, match="is not a partition folder below the basePath"):
            lake.read.option("basePath", base).parquet(path)
    with pytest.raises(ObjectNotFoundError, match="paths are literal, without wildcards"):
        lake.read.csv(f"{root}*.csv")
    with pytest.raises(InvalidUriError):
        lake.read.option("basePath", "/tmp/o").parquet(f"{root}o/day=2026-07-01")
