"""Versions as formats of Spark's own reader, which Spark 4 has sources in Python for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from benchmarks.counting import recorded_reads
from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError
from sparklake.rows.diffs import DIFF_DDL, THREE_WAY_DDL
from sparklake.rows.objects import OBJECT_DDL
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.history.log_rows import LOG_DDL
from tests.spark.contract.conftest import PATHS, SECRET

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("small_tasks")
def test_formats_of_spark_have_the_rows_of_the_functions(
    registered: Lake, grown: Repository, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def reader(name: str, **options: str) -> DataFrameReader:
        return spark.read.format(name).options(repository=grown.name, **options)

    cases = [
        (reader("sparklake.objects", ref="main"), grown.objects("main"), OBJECT_DDL),
        (reader("sparklake.objects", ref="main", prefix="k/00"), grown.objects("main", "k/00"), ""),
        (
            reader("sparklake.diff", left="main~1", right="main"),
            grown.diff("main~1", "main"),
            DIFF_DDL,
        ),
        (reader("sparklake.log", ref="main", limit="2"), grown.log("main", limit=2), LOG_DDL),
    ]
    three_way = reader("sparklake.diff", left="main~1", right="main", three_way="true")
    cases.append((three_way, grown.diff("main~1", "main", three_way=True), THREE_WAY_DDL))
    for read, rows, ddl in cases:
        frame = read.load()
        assert_df_equality(frame, rows.to_df(), ignore_nullable=True)
        if ddl:
            assert frame.schema == spark.createDataFrame([], ddl).schema
        frame.explain("extended")
        assert SECRET not in capsys.readouterr().out
    objects = reader("sparklake.objects", ref="main").load()
    assert [row.path for row in objects.where("size = 5").select("path").collect()] == ["k/007"]
    objects.createOrReplaceTempView("objects_of_main")
    (total,) = spark.sql(
        "SELECT count(*) AS n FROM objects_of_main WHERE path LIKE 'k/%'"
    ).collect()
    assert total["n"] == len(PATHS) - 1


@pytest.mark.connect
@pytest.mark.usefixtures("registered")
def test_a_uri_is_loaded_like_any_other_path(grown: Repository, spark: SparkSession) -> None:
    for uri, prefix in (
        (f"lakefs://{grown.name}/main", ""),
        (f"lakefs://{grown.name}/main/k/00", "k/00"),
    ):
        loaded = spark.read.format("sparklake.objects").load(uri)
        assert_df_equality(loaded, grown.objects("main", prefix).to_df(), ignore_nullable=True)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW first_objects USING sparklake.objects "
        f"OPTIONS (path 'lakefs://{grown.name}/main/k/00')"
    )
    found = [row.path for row in spark.sql("SELECT path FROM first_objects").collect()]
    assert found == [each.path for each in grown.objects("main", "k/00")]
    assert found


def test_a_uri_with_a_prefix_reads_only_its_ranges(registered: Lake, grown: Repository) -> None:
    from pyspark.sql.types import StructType

    from sparklake.frames import datasources as sources

    class Source(sources.ObjectsSource):
        opener = staticmethod(registered.remote_opener())
        ddl = OBJECT_DDL

    def read(path: str) -> tuple[list[str], set[str]]:
        # Also the tasks run in this process here, which records what they read.
        reader = Source({"path": path}).reader(StructType())
        with recorded_reads() as names:
            batches = [batch for each in reader.partitions() for batch in reader.read(each)]
        return [path for batch in batches for path in batch["path"].to_pylist()], {*names}

    everything, all_ranges = read(f"lakefs://{grown.name}/main")
    some, ranges = read(f"lakefs://{grown.name}/main/k/00")
    assert everything == [each.path for each in grown.objects("main")]
    assert some == [path for path in everything if path.startswith("k/00")]
    within = [
        each.id
        for each in grown.tree("main").ranges
        if each.max_key >= b"k/00" and each.min_key < b"k/01"
    ]
    assert ranges == {*within}
    assert len(ranges) < len(all_ranges) / 2


def test_a_task_of_the_plan_is_a_partition(
    grown: Repository, registered: Lake, spark: SparkSession
) -> None:
    from sparklake.frames import datasources as sources

    objects = next(each for each in sources.SOURCES if each.name() == "sparklake.objects")

    class SmallTasks(objects):  # type: ignore[misc,valid-type]
        opener = staticmethod(registered.remote_opener())
        ddl = OBJECT_DDL

        @classmethod
        def name(cls) -> str:
            return "objects_by_small_tasks"

        def work(self, repository: Repository, given: Mapping[str, str]) -> Any:
            return repository.objects(given["ref"]).shared(20)

    spark.dataSource.register(SmallTasks)
    read = spark.read.format("objects_by_small_tasks").options(repository=grown.name, ref="main")
    placed = read.load().selectExpr("spark_partition_id() AS task", "path").collect()
    assert [each["path"] for each in placed] == [each.path for each in grown.objects("main")]
    assert len({each["task"] for each in placed}) == grown.objects("main").shared(20)[1].num_rows


def test_executors_are_sent_no_work_of_others(grown: Repository) -> None:
    from sparklake.frames import datasources as sources

    body, work = grown.objects("main").shared(20)
    reader = sources.TaskReader(body, work.column("task").to_pylist())
    partitions = reader.partitions()
    assert len(partitions) == work.num_rows > 3
    rows = [path for each in partitions for batch in reader.read(each) for path in batch["path"]]
    assert [each.as_py() for each in rows] == [each.path for each in grown.objects("main")]
    assert reader.__getstate__()["_tasks"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ref": "nobody"}, "nobody"),
        ({}, "needs the option 'ref'"),
        ({"ref": "main", "dsn": "x"}, "has no option 'dsn'"),
        ({"path": "lakefs://lake/main"}, "has both the path 'lakefs://lake/main' and the option"),
    ],
)
def test_what_cannot_be_read_is_said(
    registered: Lake, grown: Repository, spark: SparkSession, options: dict[str, str], said: str
) -> None:
    reader = spark.read.format("sparklake.objects").options(repository=grown.name, **options)
    with pytest.raises(Exception, match=said):
        reader.load().collect()


def test_refs_in_memory_are_registered_nowhere(spark: SparkSession) -> None:
    with memory_lake() as lake, pytest.raises(InvalidInputError, match="in memory"):
        lake.register(spark)
