"""Tables that both branches wrote with the jar: the jar reads and continues the merged table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.errors import MergeConflictError
from sparklake.strategies import rows
from tests.spark.iceberg.conftest import metadata_of
from tests.spark.iceberg.test_writes import TABLE, check_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


def change(repo: Repository, spark: SparkSession, branch: str, *statements: str) -> str:
    with repo.branch(branch).edit_iceberg(TABLE) as table:
        for each in statements:
            spark.sql(each.format(table))
    return repo.branch(branch).commit(statements[0]).id


@pytest.fixture
def table(request: pytest.FixtureRequest, repo: Repository, spark: SparkSession) -> Repository:
    """Make a table of two files on two branches."""
    version, mode = request.param
    main = repo.branch("main")
    some = spark.sql("SELECT id, 'k' || id % 2 AS k FROM range(0, 10, 1, 1)")
    main.write(some, TABLE, "iceberg")
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


UPGRADE = "ALTER TABLE {} SET TBLPROPERTIES ('format-version'='3')"


@pytest.mark.parametrize("table", EVERY[:2], indirect=True)
@pytest.mark.parametrize("upgraded", ["dev", "main"])
def test_an_upgrade_to_row_ids(table: Repository, spark: SparkSession, upgraded: str) -> None:
    other = "main" if upgraded == "dev" else "dev"
    change(table, spark, upgraded, UPGRADE, "DELETE FROM {} WHERE id = 3")
    change(table, spark, other, "INSERT INTO {} VALUES (30, 'other')")
    before = rows_of(table, spark)
    table.merge("dev", "main")
    expected = {**before, 30: "other"}
    expected.pop(3, None)
    assert rows_of(table, spark) == expected
    change(
        table,
        spark,
        "main",
        "DELETE FROM {} WHERE id IN (4, 30)",
        "UPDATE {} SET k = 'x' WHERE id = 5",
        "CALL {0.catalog}.system.rewrite_data_files(table => '{0}')",
    )
    del expected[4], expected[30]
    assert rows_of(table, spark) == {**expected, 5: "x"}
    place = metadata_of(table, "main", TABLE).address
    ids = spark.read.format("iceberg").load(place).select("_row_id").collect()
    assert len({each[0] for each in ids if each[0] is not None}) == len(expected)


@pytest.mark.parametrize("table", EVERY[1:2], indirect=True)
def test_position_deletes_beside_vectors(table: Repository, spark: SparkSession) -> None:
    change(table, spark, "dev", UPGRADE, "DELETE FROM {} WHERE id = 3")
    change(table, spark, "main", "DELETE FROM {} WHERE id = 5")
    expected = rows_of(table, spark, "dev")
    with pytest.raises(
        MergeConflictError, match=r"position deletes of an earlier.*source-wins"
    ) as raised:
        table.merge("dev", "main")
    # Files of dest have no row ids, so rows cannot be merged.
    assert "rows(KEY)" not in str(raised.value)
    table.merge("dev", "main", strategy="source-wins")
    assert rows_of(table, spark) == expected


@pytest.mark.parametrize(
    ("table", "is_united"), [*zip(EVERY, (False, False, True), strict=True)], indirect=["table"]
)
def test_a_pick_after_deletes_in_the_file(
    table: Repository, spark: SparkSession, is_united: bool
) -> None:
    deleted = change(table, spark, "dev", "DELETE FROM {} WHERE id = 3")
    picked = change(table, spark, "dev", "UPDATE {} SET k = 'new' WHERE id = 5")
    change(table, spark, "main", "INSERT INTO {} VALUES (30, 'main')")
    before, main = rows_of(table, spark), table.branch("main")
    advised = table.create_branch("advised", "main")
    if is_united:
        main.cherry_pick(picked)
    else:
        with pytest.raises(MergeConflictError, match=r"Pick these first.*rows\(KEY\)"):
            main.cherry_pick(picked)
        main.cherry_pick(picked, rules={f"{TABLE}/": rows("id")})
        advised.cherry_pick(deleted)
        advised.cherry_pick(picked)
        expected = {key: each for key, each in before.items() if key != 3}
        assert rows_of(table, spark, "advised") == {**expected, 5: "new"}
    assert rows_of(table, spark) == {**before, 5: "new"}
    change(table, spark, "main", "DELETE FROM {} WHERE id IN (3, 5)")
    assert rows_of(table, spark) == {k: each for k, each in before.items() if k not in (3, 5)}
