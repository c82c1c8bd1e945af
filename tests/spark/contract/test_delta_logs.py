"""What a write copies of a Delta log, and what Delta does in the copy beside the commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = "tables/t"


def test_later_writes_copy_no_more_of_the_log(spark: SparkSession, repo: Repository) -> None:
    main, interval, copied = repo.branch("main"), 2, []
    for number in range(7):
        options = {} if number else {"delta.checkpointInterval": str(interval)}
        main.write(spark.range(number, number + 1, 1, 1), TABLE, "delta", "append", **options)
        with main.edit_delta(TABLE) as location:
            log = Path(location.removeprefix("file:"), "_delta_log")
            copied.append(sorted(each.name for each in log.glob("[0-9]*")))
    # A checkpoint, its commit, and the commits since.
    assert max(map(len, copied)) == 1 + interval
    assert copied[-1] == [f"{6:020}.checkpoint.parquet", f"{6:020}.json"]
    names = [each.path.rpartition("/")[2] for each in repo.objects("main", f"{TABLE}/_delta_log/")]
    assert "_last_checkpoint" in names
    with main.edit_delta(TABLE, history=True) as location:
        spark.sql(f"RESTORE delta.`{location}` TO VERSION AS OF 3")
    assert repo.read("main", TABLE).count() == 4
    for path in (each.path for each in repo.objects("main", f"{TABLE}/_delta_log/")):
        assert str(repo.info.storage_namespace).encode() not in repo.read_bytes("main", path)


def test_an_append_that_compacts_the_table(spark: SparkSession, repo: Repository) -> None:
    """Delta's auto compaction removes existing files right after an append."""
    main, smallest = repo.branch("main"), "spark.databricks.delta.autoCompact.minNumFiles"
    spark.conf.set(smallest, "2")
    try:
        for number in range(3):
            options = {} if number else {"delta.autoOptimize.autoCompact": "true"}
            row = spark.range(number, number + 1, 1, 1)
            main.write(row, TABLE, "delta", "append", **options)
    finally:
        spark.conf.unset(smallest)
    main.commit("three rows")
    rows = repo.read("main", TABLE)
    assert sorted(row["id"] for row in rows.collect()) == [0, 1, 2]
    assert len(rows.inputFiles()) < 3
