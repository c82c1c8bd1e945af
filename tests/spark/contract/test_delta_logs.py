"""What a write copies of a Delta log, and what Delta does in the copy beside the commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Repository
from sparklake.verbs.delta import write as delta_writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/t"


@pytest.mark.system
def test_later_writes_copy_no_more_of_the_log(spark: SparkSession, repo: Repository) -> None:
    main, interval, copied = repo.branch("main"), 2, []
    for number in range(4):
        options = {} if number else {"delta.checkpointInterval": str(interval)}
        main.write(spark.range(number, number + 1, 1, 1), TABLE, "delta", "append", **options)
        if number >= interval:
            with main.edit_delta(TABLE) as location:
                log = Path(location.removeprefix("file:"), "_delta_log")
                copied.append(sorted(each.name for each in log.glob("[0-9]*")))
    # A checkpoint, its commit, and the commits since.
    first = [f"{2:020}.checkpoint.parquet", f"{2:020}.json"]
    assert copied == [first, [*first, f"{3:020}.json"]]
    names = [each.path.rpartition("/")[2] for each in repo.objects("main", f"{TABLE}/_delta_log/")]
    assert "_last_checkpoint" in names
    with main.edit_delta(TABLE, history=True) as location:
        spark.sql(f"RESTORE delta.`{location}` TO VERSION AS OF 2")
    assert repo.read("main", TABLE).count() == 3
    for path in (each.path for each in repo.objects("main", f"{TABLE}/_delta_log/")):
        assert str(repo.info.storage_namespace).encode() not in repo.read_bytes("main", path)


@pytest.mark.system
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


@pytest.mark.system
def test_a_checkpoint_after_a_concurrent_append_is_dropped(
    spark: SparkSession, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both copies have a checkpoint of version 2, but only one is of the branch's version 2."""
    main, stage = repo.branch("main"), delta_writes._Copy.stage

    def append(number: int, **options: str) -> None:
        main.write(spark.range(number, number + 1, 1, 1), TABLE, "delta", "append", **options)

    def stage_later(copy: Any) -> Any:
        monkeypatch.setattr(delta_writes._Copy, "stage", stage)
        append(2)
        return stage(copy)

    append(0, **{"delta.checkpointInterval": "2"})
    append(1)
    monkeypatch.setattr(delta_writes._Copy, "stage", stage_later)
    append(3)
    log = [each.path for each in repo.objects("main", f"{TABLE}/_delta_log/")]
    assert [each for each in log if "checkpoint.parquet" in each] == [
        f"{TABLE}/_delta_log/{2:020}.checkpoint.parquet"
    ]
    assert sorted(row["id"] for row in repo.read("main", TABLE).collect()) == [0, 1, 2, 3]
