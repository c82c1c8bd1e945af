"""Deletion vectors of two branches on one file, written, merged and read by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Branch, MergeConflictError, Repository
from sparklake.testing.lakes import contents
from tests.support.delta import TABLE, log_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


class Lake:
    """A repository with one table, and SQL on its branches. Each call is one commit."""

    def __init__(self, spark: SparkSession, repo: Repository) -> None:
        self.spark = spark
        self.repo = repo
        self.main = repo.branch("main")

    def create(self, rows: int) -> None:
        ids = self.spark.range(rows).selectExpr("id", "id as value").coalesce(1)
        self.main.write(ids, TABLE, "delta")
        enabled = "delta.enableDeletionVectors = true"
        self.sql(self.main, f"ALTER TABLE {{table}} SET TBLPROPERTIES ({enabled})")

    def sql(self, branch: Branch, *statements: str) -> None:
        with branch.edit_delta(TABLE) as location:
            for each in statements:
                self.spark.sql(each.format(table=f"delta.`{location}`")).collect()
        branch.commit(" and ".join(statements)[:200])

    def rows(self, ref: str) -> dict[int, int]:
        rows = self.repo.read(ref, TABLE, format="delta").collect()
        result = {row["id"]: row["value"] for row in rows}
        assert len(result) == len(rows), "an id is there twice"
        return result

    def adds(self, ref: str) -> list[dict[str, Any]]:
        """Return the `add` actions of the last commit of the log."""
        name = max(each for each in log_of(self.repo, ref) if each.endswith(".json"))
        lines = contents(self.repo, ref)[f"{TABLE}/_delta_log/{name}"].splitlines()
        return [each["add"] for each in map(json.loads, lines) if "add" in each]


@pytest.fixture
def lake(spark: SparkSession, repo: Repository) -> Lake:
    return Lake(spark, repo)


def values(ids: Iterable[int], **changed: int) -> dict[int, int]:
    return {each: each for each in ids} | {int(name[1:]): each for name, each in changed.items()}


def test_deletions_of_disjoint_rows_of_one_file_unite(lake: Lake) -> None:
    lake.create(10)
    dev = lake.repo.create_branch("dev", "main")
    lake.sql(dev, "DELETE FROM {table} WHERE id = 2")
    lake.sql(lake.main, "UPDATE {table} SET value = 0 WHERE id = 8")
    lake.repo.merge("dev", "main")
    assert lake.rows("main") == values({*range(10)} - {2}, _8=0)


MERGE = (
    "MERGE INTO {table} t USING (SELECT explode(array(9, 300)) AS id) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET value = 900"
    " WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.id, 0)"
)


@pytest.mark.system
def test_disjoint_rows_of_one_file_unite(lake: Lake) -> None:
    lake.create(20)
    dev = lake.repo.create_branch("dev", "main")
    lake.sql(dev, "DELETE FROM {table} WHERE id = 2", MERGE)
    lake.sql(dev, "UPDATE {table} SET value = 700 WHERE id = 7")
    updated = dev.head.id
    lake.sql(lake.main, "UPDATE {table} SET value = 800 WHERE id IN (8, 3)")
    lake.sql(lake.main, "DELETE FROM {table} WHERE id IN (4, 5)")
    merge = lake.repo.merge("dev", "main")
    assert merge.metadata["sparklake.merge.tables"] == TABLE
    ids = {*range(20), 300} - {2, 4, 5}
    merged = values(ids, _300=0, _9=900, _7=700, _8=800, _3=800)
    assert lake.rows("main") == merged
    # A row that dev updated, and one that only main knows.
    lake.sql(lake.main, "UPDATE {table} SET value = 1 WHERE id IN (3, 300, 10)")
    later = merged | {3: 1, 300: 1, 10: 1}
    assert lake.rows("main") == later
    # The commit to undo marked a row of a file in which later commits marked more.
    lake.main.revert(updated)
    assert lake.rows("main") == later | {7: 7}
    lake.sql(lake.main, "OPTIMIZE {table}")
    assert lake.rows("main") == later | {7: 7}


@pytest.mark.system
def test_overlapping_rows_are_a_conflict(lake: Lake) -> None:
    lake.create(20)
    dev = lake.repo.create_branch("dev", "main")
    lake.sql(dev, "UPDATE {table} SET value = 0 WHERE id BETWEEN 3 AND 15")
    lake.sql(lake.main, "DELETE FROM {table} WHERE id BETWEEN 8 AND 19")
    words = r"same rows: part-.*parquet at positions 8, 9, 10, 11, 12 and 3 more"
    head = lake.main.head.id
    with pytest.raises(MergeConflictError, match=words):
        lake.repo.merge("dev", "main")
    with pytest.raises(MergeConflictError, match=words):
        lake.main.cherry_pick(dev.head.id)
    assert lake.main.head.id == head
    # A compaction copies rows that the other side deleted.
    lake.sql(lake.main, "OPTIMIZE {table}", "REORG TABLE {table} APPLY (PURGE)")
    with pytest.raises(MergeConflictError, match="source removed or rewrote files"):
        lake.repo.merge("dev", "main")
    lake.repo.merge("dev", "main", "source-wins")
    assert lake.rows("main") == lake.rows("dev")


@pytest.mark.system
def test_large_vectors_are_files_of_the_table(lake: Lake) -> None:
    lake.create(30_000)
    dev = lake.repo.create_branch("dev", "main")
    lake.sql(dev, "DELETE FROM {table} WHERE id % 3 = 0")
    lake.sql(lake.main, "UPDATE {table} SET value = -1 WHERE id % 3 = 1")
    preview = lake.repo.preview_merge("dev", "main")
    assert preview.merged_tables == (TABLE,)
    lake.repo.merge("dev", "main")
    (add,) = lake.adds("main")
    vector = add["deletionVector"]
    assert (vector["storageType"], vector["cardinality"]) == ("u", 20_000)
    assert json.loads(add["stats"])["numRecords"] == 30_000
    expected = {each: -1 if each % 3 == 1 else each for each in range(30_000) if each % 3}
    assert lake.rows("main") == expected
    lake.sql(lake.main, "DELETE FROM {table} WHERE id < 29990")
    assert lake.rows("main") == {key: value for key, value in expected.items() if key >= 29_990}
