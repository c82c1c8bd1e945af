"""Exports by Spark tasks: the same tree and the same rows as in process, and tables that read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset
import pytest
from deltalake import DeltaTable, write_deltalake

from sparklake import Lake, Repository
from sparklake.testing.lakes import commit_all, contents
from tests.verbs.exports.test_export import rows_of, tree_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_exports_what_one_process_does(
    repo: Repository, local_lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    main = repo.branch("main")
    commit_all(main, {f"raw/{number:03}": b"%d" % number for number in range(40)}, "raw")
    days = spark.range(20).selectExpr("id", "id % 3 as day")
    main.write(days, "tables/days", format="parquet", mode="overwrite", partition_by=["day"])
    main.commit("days")
    local = local_lake.repository(repo.name)
    ours = repo.export("main", str(tmp_path / "spark"))
    theirs = local.export("main", str(tmp_path / "local"))
    assert tree_of(tmp_path / "spark") == tree_of(tmp_path / "local") == contents(local, "main")
    assert (ours.added, ours.size) == (theirs.added, theirs.size)
    folders = [Path(each.manifest.removeprefix("file://")) for each in (ours, theirs)]
    assert rows_of(folders[0]) == rows_of(folders[1])
    table = pyarrow.dataset.dataset(tmp_path / "spark/tables/days", partitioning="hive").to_table()
    assert sorted(table.column("id").to_pylist()) == list(range(20))
    assert spark.read.parquet(str(tmp_path / "spark/tables/days")).count() == 20

    commit_all(main, {"raw/000": None, "raw/001": b"now", "raw/new": b"new"}, "second")
    made = repo.export("main", str(tmp_path / "spark"), incremental=True)
    assert (made.added, made.changed, made.removed) == (1, 1, 1)
    assert tree_of(tmp_path / "spark") == contents(local, "main")


@pytest.mark.system
def test_a_delta_table_is_read_where_it_went(
    local_lake: Lake, names: Iterator[str], tmp_path: Path
) -> None:
    repo = local_lake.create_repository(next(names), str(tmp_path / "namespace"))
    source = str(tmp_path / "source")
    for day in ("mon", "tue"):
        rows = pa.table({"id": [1, 2], "day": [day, day]})
        write_deltalake(source, rows, mode="append", partition_by=["day"])
        repo.branch("main").import_objects(source, "tables/orders")
    repo.export("main", str(tmp_path / "out"))
    table = DeltaTable(tmp_path / "out/tables/orders")
    assert sorted(table.to_pyarrow_table().column("day").to_pylist()) == ["mon"] * 2 + ["tue"] * 2
