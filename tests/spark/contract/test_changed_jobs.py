"""Ten jobs, unchanged on plain paths and changed on a branch, have the same rows.

They are the patterns of docs/changing-a-job.md. `make test` runs two of them, and
`make test-system` runs three on Spark Connect.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from pyspark.sql.utils import is_remote

from sparklake import Lake, Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

Values = list[tuple[Any, ...]]
SCHEMA = "id int, price double, day string"
ORDERS = "(1, 10.0, '2026-07-01'), (2, 25.0, '2026-07-01'), (3, 8.5, '2026-07-02')"


class Place(Protocol):
    """Where a job runs: plain folders, or a branch."""

    spark: SparkSession
    scratch: Path
    attempts: int

    @property
    def read(self) -> Any: ...

    def write(self, rows: DataFrame) -> Any: ...

    def path(self, name: str, version: str = "") -> str: ...

    def keep(self, version: str) -> None:
        """Keep the current state as a version: a copy, or a tag."""

    def commit(self, once: str) -> None: ...

    def shop(self, name: str) -> str:
        """Return a path in another repository, or below another root."""

    def overwrite_partitions(self, rows: DataFrame) -> Any: ...

    def edit(self, name: str) -> Any:
        """Yield the location of a Delta table, to change it."""

    def merge(self, name: str, clauses: str) -> None:
        """Run a MERGE INTO a Delta table."""

    def publish(self) -> Any:
        """Show the writes of the body to others: in a lake all at once."""

    def load(self, rows: DataFrame) -> None:
        """Append rows to the orders, unless a check of the new table fails."""

    def stream(self, rows: DataFrame, checkpoint: str, name: str) -> None: ...


@dataclass
class Folders:
    spark: SparkSession
    root: Path
    scratch: Path
    attempts: int = 1

    @property
    def read(self) -> Any:
        return self.spark.read

    def write(self, rows: DataFrame) -> Any:
        return rows.write

    def path(self, name: str, version: str = "") -> str:
        return f"{self.root}{version}/{name}"

    def keep(self, version: str) -> None:
        shutil.copytree(self.root, f"{self.root}{version}")

    def commit(self, once: str) -> None:
        pass

    def shop(self, name: str) -> str:
        return f"{self.root}-shop/{name}"

    def overwrite_partitions(self, rows: DataFrame) -> Any:
        return rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")

    @contextmanager
    def edit(self, name: str) -> Iterator[str]:
        yield self.path(name)

    def merge(self, name: str, clauses: str) -> None:
        self.spark.sql(f"MERGE INTO delta.`{self.path(name)}` {clauses}")

    @contextmanager
    def publish(self) -> Iterator[None]:
        yield

    def load(self, rows: DataFrame) -> None:
        table, new = self.path("orders"), self.path("orders_new")
        complete = self.read.parquet(table).unionByName(rows)
        complete.write.mode("overwrite").partitionBy("day").parquet(new)
        rows = self.read.parquet(new)
        assert rows.where("price < 0").count() == 0
        rows.write.mode("overwrite").partitionBy("day").parquet(table)

    def stream(self, rows: DataFrame, checkpoint: str, name: str) -> None:
        start = rows.writeStream.option("checkpointLocation", checkpoint)
        start.trigger(availableNow=True).start(self.path(name)).awaitTermination()


@dataclass
class OnBranch:
    spark: SparkSession
    scratch: Path
    lake: Lake
    repo: Repository
    other: Repository
    branch: str = "dev"
    attempts: int = 2

    @property
    def read(self) -> Any:
        return self.lake.read

    def write(self, rows: DataFrame) -> Any:
        return self.lake.write(rows)

    def path(self, name: str, version: str = "") -> str:
        return f"lakefs://{self.repo.name}/{version or self.branch}/{name}"

    def keep(self, version: str) -> None:
        self.repo.branch(self.branch).commit(version)
        self.repo.create_tag(version, self.branch)

    def commit(self, once: str) -> None:
        self.repo.branch(self.branch).commit("a job", once=once)

    def shop(self, name: str) -> str:
        return f"lakefs://{self.other.name}/main/{name}"

    def overwrite_partitions(self, rows: DataFrame) -> Any:
        return self.lake.write(rows).mode("overwrite-partitions")

    @contextmanager
    def edit(self, name: str) -> Iterator[str]:
        with self.repo.branch(self.branch).edit_delta(name) as location:
            yield location

    def merge(self, name: str, clauses: str) -> None:
        self.lake.sql(f"MERGE INTO lakefs.`{self.repo.name}`.{self.branch}.{name} {clauses}")

    @contextmanager
    def publish(self) -> Iterator[None]:
        before = self.branch
        with self.repo.branch(before).transaction("publish") as branch:
            self.branch = branch.name
            try:
                yield
            finally:
                self.branch = before

    def load(self, rows: DataFrame) -> None:
        table = f"lakefs://{self.repo.name}/load/orders"
        load = self.repo.create_branch("load", source=self.branch)
        try:
            self.lake.write(rows).mode("append").partitionBy("day").parquet(table)
            load.commit("load orders")
            assert self.lake.read.parquet(table).where("price < 0").count() == 0
            self.repo.merge("load", self.branch)
        finally:
            self.repo.delete_branch("load")

    def stream(self, rows: DataFrame, checkpoint: str, name: str) -> None:
        start = self.lake.write_stream(rows).option("checkpointLocation", checkpoint)
        start.trigger(availableNow=True).start(self.path(name)).awaitTermination()


def table_of(spark: SparkSession, values: str) -> DataFrame:
    words = f"SELECT id, double(price) AS price, day FROM VALUES {values} AS t(id, price, day)"
    return spark.sql(words).coalesce(1)


def values(rows: DataFrame, *columns: str) -> Values:
    return sorted(map(tuple, rows.select(*columns or rows.columns).collect()))


def orders(place: Place, name: str = "orders") -> Values:
    rows = place.read.parquet(place.path(name))
    return values(rows.selectExpr("id", "price", "string(day) AS day"))


def overwrite_a_day(place: Place) -> Values:
    day = place.read.parquet(place.path("orders")).where("day = '2026-07-01'")
    writer = place.write(day.selectExpr("id", "price * 2 AS price", "day")).mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").partitionBy("day").parquet(
        place.path("orders")
    )
    return orders(place)


def append_once(place: Place) -> Values:
    rows = table_of(place.spark, "(9, 1.0, '2026-07-03')")
    for _ in range(place.attempts):
        writer = place.write(rows).mode("append").partitionBy("day").option("once", "day 3")
        writer.parquet(place.path("orders"))
        place.commit("commit/day 3")
    return orders(place)


def read_a_version(place: Place) -> Values:
    append_once(place)
    before = place.read.parquet(place.path("orders", "v1"))
    now = place.read.parquet(place.path("orders"))
    return values(now.join(before, "id", "left_anti"), "id", "price")


def join_two_repositories(place: Place) -> Values:
    countries = place.spark.sql("SELECT * FROM VALUES (1, 'DE'), (3, 'FR') AS t(id, country)")
    place.write(countries).parquet(place.shop("countries"))
    left = place.read.parquet(place.path("orders"))
    return values(left.join(place.read.load(place.shop("countries")), "id"), "id", "country")


def convert_csv(place: Place) -> Values:
    rows = table_of(place.spark, ORDERS)
    place.write(rows).option("header", True).csv(place.path("raw"))
    raw = place.read.option("header", True).schema(SCHEMA).csv(place.path("raw"))
    place.write(raw).mode("overwrite").partitionBy("day").parquet(place.path("clean"))
    return orders(place, "clean")


def merge_into_delta(place: Place) -> Values:
    from delta.tables import DeltaTable

    rows = table_of(place.spark, ORDERS)
    place.write(rows).format("delta").save(place.path("prices"))
    updates = table_of(place.spark, "(1, 99.0, '2026-07-01'), (4, 1.0, '2026-07-04')")
    if is_remote():  # DeltaTable would need Delta Connect on the server.
        updates.createOrReplaceTempView("updates")
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        place.merge("prices", f"old USING updates new ON old.id = new.id {clauses}")
    else:
        with place.edit("prices") as location:
            DeltaTable.forPath(place.spark, location).alias("old").merge(
                updates.alias("new"), "old.id = new.id"
            ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    return values(place.read.format("delta").load(place.path("prices")))


def backfill(place: Place) -> Values:
    table = place.path("orders")
    days = [f"{table}/day=2026-07-0{number}" for number in (1, 2)]
    rows = place.read.option("basePath", table).parquet(*days)
    writer = place.overwrite_partitions(rows.selectExpr("id", "price + 1 AS price", "day"))
    writer.partitionBy("day").parquet(table)
    return orders(place)


def publish_several(place: Place) -> Values:
    rows = place.read.parquet(place.path("orders"))
    with place.publish():
        place.write(rows).mode("overwrite").parquet(place.path("report/orders"))
        totals = rows.groupBy("day").count()
        place.write(totals).mode("overwrite").parquet(place.path("report/totals"))
    return values(place.read.parquet(place.path("report/totals")), "count") + orders(
        place, "report/orders"
    )


def check_then_publish(place: Place) -> Values:
    for price in (-1.0, 7.0):
        with suppress(AssertionError):
            place.load(table_of(place.spark, f"(9, {price}, '2026-07-03')"))
    return orders(place)


def stream(place: Place) -> Values:
    source, checkpoint = place.scratch / "events", place.scratch / "checkpoint"
    source.mkdir()
    events = place.spark.readStream.schema("id int").json(str(source))
    for run in range(2):
        (source / f"{run}.json").write_text(json.dumps({"id": run}))
        place.stream(events, str(checkpoint), "table")
    return values(place.read.parquet(place.path("table")))


JOBS = (
    overwrite_a_day,
    append_once,
    read_a_version,
    join_two_repositories,
    convert_csv,
    merge_into_delta,
    backfill,
    publish_several,
    check_then_publish,
    stream,
)
QUICK = (append_once, backfill)
ON_CONNECT = (join_two_repositories, check_then_publish, stream)


def _marks(job: Callable[[Place], Values]) -> Sequence[pytest.MarkDecorator]:
    if job in ON_CONNECT:
        return [pytest.mark.connect, pytest.mark.system]
    return [] if job in QUICK else [pytest.mark.system]


@pytest.mark.parametrize("job", [pytest.param(each, marks=_marks(each)) for each in JOBS])
def test_a_changed_job_has_the_rows_of_the_unchanged_one(
    job: Callable[[Place], Values],
    spark: SparkSession,
    lake_of_home: Lake,
    repo: Repository,
    tmp_path: Path,
) -> None:
    repo.create_branch("dev")
    lake = lake_of_home
    shop = lake.create_repository(f"{repo.name}-shop", str(tmp_path / "shop"))
    folders = Folders(spark, tmp_path / "plain", tmp_path / "scratch-of-folders")
    branch = OnBranch(spark, tmp_path / "scratch-of-branch", lake, lake.repository(repo.name), shop)
    results = []
    for place in (folders, branch):
        place.scratch.mkdir()
        rows = table_of(spark, ORDERS)
        place.write(rows).partitionBy("day").parquet(place.path("orders"))
        place.keep("v1")
        results.append(job(place))
    unchanged, changed = results
    assert changed == unchanged != []
    assert not list(repo.objects("main"))
