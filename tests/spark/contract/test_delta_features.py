"""Unions of tables with Delta's features, written by Spark, and written on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable, IdentityGenerator
from pyspark.sql.utils import is_remote

from sparklake import MergeConflictError, Repository
from tests.support.delta import change_table, checked_out
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ENGINE = "auto"
pytestmark = [pytest.mark.spark, pytest.mark.system]


class Lake:
    """A table on branches. Each change and look uses a folder that Delta has not cached."""

    def __init__(self, repo: Repository, spark: SparkSession, folder: Path) -> None:
        self.repo = repo
        self.spark = spark
        self._folders: Iterator[Path] = (folder / str(number) for number in count())

    def create(self, columns: str, *words: str, **properties: str) -> None:
        listed = ", ".join(f"'delta.{name}' = '{value}'" for name, value in properties.items())
        created = f"CREATE TABLE {{t}} ({columns}) USING delta"
        if listed:
            created += f" TBLPROPERTIES ({listed})"
        self.write("main", created, *words)
        self.branch("dev")

    def next_folder(self) -> Path:
        return next(self._folders)

    def branch(self, name: str) -> None:
        self.repo.create_branch(name, "main")

    def write(self, branch: str, *words: str) -> None:
        def change(table: str) -> None:
            for each in words:
                self.spark.sql(each.format(t=f"delta.`{table}`")).collect()

        change_table(self.repo, self.repo.branch(branch), self.next_folder(), change)

    def rows(self, words: str, ref: str = "main") -> list[Row]:
        table = checked_out(self.repo, ref, self.next_folder())
        return self.spark.sql(words.format(t=f"delta.`{table}`")).collect()

    def values(self, words: str, ref: str = "main") -> list[tuple[Any, ...]]:
        return [tuple(each) for each in self.rows(words, ref)]

    def check_history(self) -> None:
        """Check that Spark reads the whole history, with times that grow.

        Without in-commit timestamps, they are those of the copied files.
        """
        history = self.rows("DESCRIBE HISTORY {t}")
        assert [each.version for each in history] == [*range(len(history))][::-1]
        since = int(self.properties().get("delta.inCommitTimestampEnablementVersion", 0))
        times = [each.timestamp for each in history if each.version >= since]
        assert times == sorted(times, reverse=True)

    def properties(self) -> dict[str, str]:
        (details,) = self.rows("DESCRIBE DETAIL {t}")
        properties: dict[str, str] = details.properties
        return properties

    def refuses(self, words: str) -> None:
        with pytest.raises(MergeConflictError, match=words):
            self.repo.merge("dev", "main")


@pytest.fixture
def lake(repo: Repository, spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(repo, spark, tmp_path)


MAPPED = {"columnMapping.mode": "name", "enableDeletionVectors": "false"}


def test_columns_are_renamed_dropped_and_added_beside_writes(lake: Lake) -> None:
    lake.create("id int, a string, b string", "INSERT INTO {t} VALUES (1, 'a', 'b')", **MAPPED)
    lake.write("dev", "INSERT INTO {t} VALUES (2, 'aa', 'bb')", "UPDATE {t} SET a = 'x'")
    lake.write(
        "main",
        "ALTER TABLE {t} RENAME COLUMN a TO c",
        "ALTER TABLE {t} DROP COLUMN b",
        "ALTER TABLE {t} ADD COLUMNS (a int)",
        "INSERT INTO {t} VALUES (3, 'cc', 30)",
    )
    lake.repo.merge("dev", "main")
    rows = [(1, "x", None), (2, "x", None), (3, "cc", 30)]
    assert lake.values("SELECT id, c, a FROM {t} ORDER BY id") == rows
    lake.write("main", "UPDATE {t} SET a = 5 WHERE c = 'x'")
    rows = [(1, "x", 5), (2, "x", 5), (3, "cc", 30)]
    assert lake.values("SELECT id, c, a FROM {t} ORDER BY id") == rows


@pytest.mark.exhaustive
def test_a_renamed_column_beside_a_delete_is_merged_and_reverted(lake: Lake) -> None:
    lake.create("id int, a string", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')", **MAPPED)
    lake.write("dev", "ALTER TABLE {t} RENAME COLUMN a TO b")
    lake.write("main", "DELETE FROM {t} WHERE id = 1")
    lake.repo.merge("dev", "main")
    assert lake.values("SELECT id, b FROM {t}") == [(2, "b")]
    lake.repo.branch("main").revert("main", parent_number=1)
    assert lake.values("SELECT id, a FROM {t}") == [(2, "b")]
    lake.check_history()


@pytest.mark.parametrize("mode", ["name", pytest.param("id", marks=pytest.mark.exhaustive)])
def test_new_columns_of_both_sides_get_different_ids(lake: Lake, mode: str) -> None:
    lake.create("id int", "INSERT INTO {t} VALUES (1)", **{**MAPPED, "columnMapping.mode": mode})
    lake.write("dev", "ALTER TABLE {t} ADD COLUMNS (s struct<x: int, y: int>, z int)")
    lake.write("main", "ALTER TABLE {t} ADD COLUMNS (a int)", "INSERT INTO {t} VALUES (2, 20)")
    lake.repo.merge("dev", "main")
    lake.write("main", "INSERT INTO {t} VALUES (3, 30, struct(31, 32), 33)")
    lake.write("main", "ALTER TABLE {t} ADD COLUMNS (last int)", "UPDATE {t} SET last = id")
    assert lake.values("SELECT id, a, s.x, s.y, z, last FROM {t} ORDER BY id") == [
        (1, None, None, None, None, 1),
        (2, 20, None, None, None, 2),
        (3, 30, 31, 32, 33, 3),
    ]
    lake.check_history()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_new_columns_of_one_id_are_merged_if_files_have_names(lake: Lake, mode: str) -> None:
    lake.create("id int", **{**MAPPED, "columnMapping.mode": mode})
    lake.write("dev", "ALTER TABLE {t} ADD COLUMNS (b int)", "INSERT INTO {t} VALUES (1, 2)")
    lake.write("main", "ALTER TABLE {t} ADD COLUMNS (a int)", "INSERT INTO {t} VALUES (3, 4)")
    if mode == "id":
        lake.refuses("columns with one id, which the files of source use")
        return
    lake.repo.merge("dev", "main")
    assert lake.values("SELECT id, a, b FROM {t} ORDER BY id") == [(1, None, 2), (3, 4, None)]


TRACKED = {"enableRowTracking": "true", "enableInCommitTimestamps": "true"}
IDS = "SELECT id, _metadata.row_id AS row FROM {t} ORDER BY id"


@pytest.mark.parametrize("vectors", [pytest.param("false", marks=pytest.mark.exhaustive), "true"])
def test_row_ids_stay_unique_and_stable(lake: Lake, vectors: str) -> None:
    lake.create(
        "id int, v int",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 0 FROM range(10)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ 10 + id, 0 FROM range(10)",
        enableDeletionVectors=vectors,
        checkpointInterval="2",
        **TRACKED,
    )
    before = dict(lake.values(IDS))
    lake.write(
        "dev",
        "INSERT INTO {t} VALUES (100, 1), (101, 1)",
        "UPDATE {t} SET v = 1 WHERE id = 3",
        "DELETE FROM {t} WHERE id = 100",
    )
    lake.write("main", "INSERT INTO {t} VALUES (200, 2)", "UPDATE {t} SET v = 2 WHERE id = 13")
    lake.repo.merge("dev", "main")
    ids = dict(lake.values(IDS))
    assert ids.keys() == {*range(20), 101, 200}
    assert len({*ids.values()}) == len(ids)
    assert {each: ids[each] for each in before} == before
    lake.write(
        "main",
        "INSERT INTO {t} VALUES (300, 3)",
        "UPDATE {t} SET v = 4 WHERE id IN (101, 200, 7)",
        "OPTIMIZE {t}",
    )
    later = dict(lake.values(IDS))
    assert {each: later[each] for each in ids} == ids
    assert len({*later.values()}) == len(later)
    lake.check_history()


def test_row_ids_that_were_copied_are_a_conflict_if_they_differ(lake: Lake) -> None:
    lake.create("id int, v int", **TRACKED)
    lake.write("dev", "INSERT INTO {t} VALUES (1, 1)", "UPDATE {t} SET v = 2")
    lake.write("main", "INSERT INTO {t} VALUES (2, 2)")
    lake.refuses("source rewrote rows whose row ids are different in dest")


def test_a_revert_restores_row_ids(lake: Lake) -> None:
    lake.create("id int", "INSERT INTO {t} VALUES (1), (2)", **TRACKED)
    before = lake.values(IDS)
    lake.write("main", "DELETE FROM {t} WHERE id = 1")
    deleted = lake.repo.branch("main").head.id
    lake.write("main", "INSERT INTO {t} VALUES (3)")
    lake.repo.branch("main").revert(deleted)
    lake.write("main", "INSERT INTO {t} VALUES (4)")
    ids = lake.values(IDS)
    assert ids[:2] == before
    assert len({row for _, row in ids}) == len(ids) == 4
    lake.check_history()


def test_row_tracking_and_times_that_one_side_enabled(lake: Lake) -> None:
    lake.create("id int", "INSERT INTO {t} VALUES (1), (2)")
    enabled = ", ".join(f"'delta.{name}' = '{value}'" for name, value in TRACKED.items())
    lake.write("main", f"ALTER TABLE {{t}} SET TBLPROPERTIES ({enabled})")
    lake.write("dev", "INSERT INTO {t} VALUES (3)", "DELETE FROM {t} WHERE id = 3")
    lake.write("dev", "INSERT INTO {t} VALUES (4)")
    lake.repo.merge("dev", "main")
    assert len({row for _, row in lake.values(IDS)}) == 3
    lake.write("main", "UPDATE {t} SET id = id + 10")
    assert len({row for _, row in lake.values(IDS)}) == 3
    lake.check_history()


@pytest.mark.exhaustive
def test_times_are_enabled_by_source(lake: Lake) -> None:
    lake.create("id int")
    times = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    lake.write("dev", times, "INSERT INTO {t} VALUES (1)")
    lake.write("main", *["INSERT INTO {t} VALUES (2)"] * 2)
    lake.repo.merge("dev", "main")
    assert lake.properties()["delta.inCommitTimestampEnablementVersion"] == "3"
    lake.write("main", "INSERT INTO {t} VALUES (3)")
    assert lake.values("SELECT id FROM {t} ORDER BY id") == [(1,), (2,), (2,), (3,)]
    lake.check_history()


def test_identity_columns_go_on_beyond_both_sides(lake: Lake) -> None:
    def create(table: str) -> None:
        if is_remote():  # DeltaTable would need Delta Connect on the server.
            lake.spark.sql(
                f"CREATE TABLE delta.`{table}` (id bigint GENERATED ALWAYS AS IDENTITY, v int) "
                "USING delta"
            )
            return
        builder = DeltaTable.create(lake.spark).location(table)
        builder = builder.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator())
        builder.addColumn("v", "INT").execute()

    change_table(lake.repo, lake.repo.branch("main"), lake.next_folder(), create)
    lake.write("main", "INSERT INTO {t} (v) VALUES (1), (2)")
    lake.branch("dev")
    lake.write("dev", "INSERT INTO {t} (v) VALUES (3)", "INSERT INTO {t} (v) VALUES (4)")
    lake.write("main", "UPDATE {t} SET v = 20 WHERE v = 2", "ALTER TABLE {t} ADD COLUMNS (w int)")
    lake.repo.merge("dev", "main")
    lake.write("main", "INSERT INTO {t} (v) VALUES (5)")
    ids = [each for (each,) in lake.values("SELECT id FROM {t} ORDER BY v")]
    assert len({*ids}) == 5
    assert lake.values("SELECT id FROM {t} WHERE v = 5")[0][0] == max(ids)
    lake.write("dev", "INSERT INTO {t} (v) VALUES (6)")
    lake.refuses("both sides generated values of the identity column 'id'")
    # The revert of an insert gives its values to no other row.
    lake.repo.branch("main").revert("main")
    lake.write("main", "INSERT INTO {t} (v) VALUES (7)")
    assert lake.values("SELECT id FROM {t} WHERE v = 7")[0][0] > max(ids)
    lake.check_history()


@pytest.mark.skipif(IS_3, reason="Delta for Spark 3.5 does not widen types by ALTER TABLE")
def test_a_type_is_widened_beside_writes(lake: Lake) -> None:
    lake.create("id int, d decimal(4, 1)", enableTypeWidening="true")
    lake.write("dev", "INSERT INTO {t} VALUES (1, 1.5)")
    lake.write(
        "main",
        "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN d TYPE decimal(10, 4)",
        "INSERT INTO {t} VALUES (5000000000, 2.1234)",
    )
    lake.repo.merge("dev", "main")
    lake.write("main", "UPDATE {t} SET id = id + 1")
    rows = [(2, "1.5000"), (5000000001, "2.1234")]
    assert lake.values("SELECT id, string(d) FROM {t} ORDER BY id") == rows
    # What source widened fits the files of dest.
    lake.repo.merge("main", "dev")
    lake.write("dev", "ALTER TABLE {t} ALTER COLUMN d TYPE decimal(12, 5)")
    lake.write("main", "INSERT INTO {t} VALUES (3, 3)")
    lake.repo.merge("dev", "main")
    assert lake.values("SELECT string(d) FROM {t} WHERE id = 3") == [("3.00000",)]
    lake.check_history()
