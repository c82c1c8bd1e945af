"""Streams of the rows that new commits of a branch add to a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from sparklake import Lake, Repository
from sparklake.errors import TableChangedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

ENGINE = "auto"

TABLE = "tables/events"


class Copy:
    """A stream from a table on main to one on another branch of the same repository."""

    def __init__(self, lake: Lake, repo: Repository, folder: Path) -> None:
        self.lake, self.repo, self.folder = lake, repo, folder
        repo.create_branch("copy", "main")

    def run(self, name: str = "all", **options: Any) -> list[int]:
        """Copy all that is new, and return the ids in the copy."""
        rows = self.lake.read_stream(f"lakefs://{self.repo.name}/main/{TABLE}", **options)
        writer = self.lake.write_stream(rows).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / name))
        query = writer.start(f"lakefs://{self.repo.name}/copy/{name}")
        assert query.awaitTermination(240)
        copied = self.repo.read("copy", name)
        return sorted(row.id for row in copied.collect())


@pytest.fixture
def copy(registered: Lake, repo: Repository, tmp_path: Path) -> Copy:
    return Copy(registered, registered.repository(repo.name), tmp_path / "checkpoints")


@pytest.fixture
def table(repo: Repository, spark: SparkSession, request: pytest.FixtureRequest) -> Table:
    return Table(repo, spark, request.param)


class Table:
    def __init__(self, repo: Repository, spark: SparkSession, table_format: str) -> None:
        self.main, self.spark, self.format = repo.branch("main"), spark, table_format

    def rows(self, *ids: int) -> DataFrame:
        columns = "id int, day string"
        return self.spark.createDataFrame([(each, f"d{each % 2}") for each in ids], columns)

    def stage(self, *ids: int, mode: str = "append") -> None:
        rows = self.rows(*ids).coalesce(1)
        self.main.write(rows, TABLE, format=self.format, mode=mode, partition_by=["day"])

    def commit(self, *ids: int, mode: str = "append") -> str:
        self.stage(*ids, mode=mode)
        return self.main.commit(f"write {ids}").id


BOTH = pytest.mark.parametrize(
    "table", ["parquet", pytest.param("delta", marks=pytest.mark.system)], indirect=True
)


@BOTH
def test_a_stream_has_the_rows_of_each_commit_once(copy: Copy, table: Table) -> None:
    first = table.commit(1)
    table.commit(2)
    assert copy.run() == [1, 2]
    table.commit(3)
    table.commit(4, 5)
    table.stage(6)
    assert copy.run() == [1, 2, 3, 4, 5]
    table.main.commit("the staged rows")
    assert copy.run() == [1, 2, 3, 4, 5, 6]
    assert copy.run("later", from_ref=first) == [2, 3, 4, 5, 6]


@pytest.mark.system
@BOTH
def test_commits_that_change_rows_end_a_stream_or_are_left_out(copy: Copy, table: Table) -> None:
    start = table.commit(1)
    assert copy.run() == [1]
    head = table.commit(2, mode="overwrite")
    table.commit(3)
    with pytest.raises(TableChangedError, match=r"^the commit .* changes or removes.*skipChanges"):
        copy.run()
    check_text_of_spark(copy, start)
    assert copy.run(skip_changes=True) == [1, 3]
    table.main.hard_reset(start)
    table.commit(4)
    with pytest.raises(TableChangedError, match="it was reset or rebased"):
        copy.run()
    with pytest.raises(TableChangedError, match="it was reset or rebased"):
        copy.run("other", from_ref=head)


def check_text_of_spark(copy: Copy, start: str) -> None:
    """Spark's own writer raises Spark's error, with the text of ours on its first line."""
    rows = copy.lake.read_stream(f"lakefs://{copy.repo.name}/main/{TABLE}", from_ref=start)
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(copy.folder / "noop")).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(240)
    first = str(raised.value).partition("\n")[0]
    assert re.search(r"sparklake\.errors\.TableChangedError: the commit .* set its from_ref", first)


@pytest.mark.system
@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_rewrites_of_the_same_rows_add_nothing(copy: Copy, table: Table) -> None:
    table.commit(1)
    start = table.commit(3)
    with table.main.edit_delta(TABLE) as at:
        table.spark.sql(f"OPTIMIZE delta.`{at}`").collect()
    table.main.commit("optimize")
    with table.main.edit_delta(TABLE) as at:
        table.spark.sql(f"INSERT INTO delta.`{at}` VALUES (5, 'd1')").collect()
        table.spark.sql(f"DELETE FROM delta.`{at}` WHERE id = 1").collect()
    table.main.commit("insert and delete")
    with pytest.raises(TableChangedError, match="changes or removes rows in its version 4"):
        copy.run(from_ref=start)
    assert copy.run("skipping", from_ref=start, skip_changes=True) == [5]


@pytest.mark.parametrize("table", ["parquet"], indirect=True)
def test_what_cannot_be_streamed_says_why(
    copy: Copy, table: Table, registered: Lake, spark: SparkSession
) -> None:
    table.commit(1)
    uri = f"lakefs://{copy.repo.name}/main/{TABLE}"
    rows = registered.read_stream(uri)
    writer = rows.writeStream.format("lakefs").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(copy.folder / "none"))
    with pytest.raises(Exception, match=r"use lake.write_stream\(rows\)"):
        writer.start(uri).awaitTermination()
    with pytest.raises(Exception, match="needs the option checkpointLocation"):
        registered.write_stream(rows).start(uri)
    with pytest.raises(Exception, match="has no option 'startingversion'"):
        # The schema is read because Spark Connect is lazy.
        _ = spark.readStream.format("lakefs").option("startingVersion", "1").load(uri).schema
