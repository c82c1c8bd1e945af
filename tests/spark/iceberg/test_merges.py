"""Tables that both branches wrote with the jar: the jar reads and continues the merged table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.errors import MergeConflictError
from tests.spark.iceberg.test_writes import TABLE, check_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


def change(repo: Repository, spark: SparkSession, branch: str, *statements: str) -> None:
    with repo.branch(branch).edit_iceberg(TABLE) as table:
        for each in statements:
            spark.sql(each.format(table))
    repo.branch(branch).commit(statements[0])


@pytest.fixture
def table(request: pytest.FixtureRequest, repo: Repository, spark: SparkSession) -> Repository:
    """Make a table of two files on two branches."""
    version, mode = request.param
    main = repo.branch("main")
    rows = spark.sql("SELECT id, 'k' || id % 2 AS k FROM range(0, 10, 1, 1)")
    main.write(rows, TABLE, "iceberg")
    more = spark.sql("SELECT id, 'k' || id % 2 AS k FROM range(10, 20, 1, 1)")
    main.write(more, TABLE, "iceberg", mode="append")
    modes = ", ".join(f"'write.{each}.mode'='{mode}'" for each in ("delete", "update", "merge"))
    change(
        repo,
        spark,
        "main",
        f"ALTER TABLE {{}} SET TBLPROPERTIES ('format-version'='{version}', {modes})",
    )
    repo.create_branch("dev", "main")
    return repo


def rows_of(repo: Repository, spark: SparkSession, ref: str = "main") -> dict[int, str]:
    return {each[0]: each[1] for each in check_same(repo, spark, ref)}


EVERY = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]


@pytest.mark.parametrize("table", EVERY, indirect=True)
def test_changes_of_different_files(table: Repository, spark: SparkSession) -> None:
    change(table, spark, "dev", "DELETE FROM {} WHERE id = 3", "INSERT INTO {} VALUES (30, 'dev')")
    change(table, spark, "main", "UPDATE {} SET k = 'main' WHERE id = 15")
    before = rows_of(table, spark)
    merged = table.merge("dev", "main")
    expected = {**before, 30: "dev"}
    del expected[3]
    assert rows_of(table, spark) == expected
    change(
        table,
        spark,
        "main",
        "DELETE FROM {} WHERE id = 4",
        "MERGE INTO {} t USING (SELECT 30L id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = 'x'",
        "CALL {0.catalog}.system.rewrite_data_files(table => '{0}')",
        "CALL {0.catalog}.system.rewrite_manifests(table => '{0}')",
    )
    del expected[4]
    assert rows_of(table, spark) == {**expected, 30: "x"}
    change(table, spark, "dev", "INSERT INTO {} VALUES (31, 'again')")
    table.merge("dev", "main")
    assert rows_of(table, spark) == {**expected, 30: "x", 31: "again"}
    with pytest.raises(MergeConflictError):  # The file of the inserted row was rewritten.
        table.branch("main").revert(merged.id, parent_number=1)


@pytest.mark.parametrize("table", EVERY[2:], indirect=True)
def test_vectors_of_one_file_are_united(table: Repository, spark: SparkSession) -> None:
    change(table, spark, "dev", "DELETE FROM {} WHERE id IN (3, 12)")
    change(table, spark, "main", "DELETE FROM {} WHERE id IN (5, 11)")
    before = rows_of(table, spark)
    table.merge("dev", "main")
    after = {key: each for key, each in before.items() if key not in (3, 12)}
    assert rows_of(table, spark) == after
    change(table, spark, "main", "DELETE FROM {} WHERE id = 7")
    del after[7]
    assert rows_of(table, spark) == after
    change(table, spark, "dev", "DELETE FROM {} WHERE id = 7")
    with pytest.raises(MergeConflictError):
        table.merge("dev", "main")
    assert rows_of(table, spark) == after


@pytest.mark.parametrize("table", EVERY[::2], indirect=True)
def test_a_merge_is_reverted(table: Repository, spark: SparkSession) -> None:
    change(table, spark, "dev", "DELETE FROM {} WHERE id = 3", "INSERT INTO {} VALUES (30, 'dev')")
    change(table, spark, "main", "INSERT INTO {} VALUES (40, 'main')")
    before = rows_of(table, spark)
    merged = table.merge("dev", "main")
    assert len(rows_of(table, spark)) == 21
    table.branch("main").revert(merged.id, parent_number=1)
    assert rows_of(table, spark) == before
    change(table, spark, "main", "DELETE FROM {} WHERE id = 40")
    assert rows_of(table, spark) == {key: each for key, each in before.items() if key != 40}
