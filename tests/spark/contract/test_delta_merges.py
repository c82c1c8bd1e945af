"""Tables of two branches, written by Spark, merged, and read by Spark and by another reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sparklake import Branch, MergeConflictError, Repository
from tests.support.delta import TABLE, change_table, log_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

Change = Callable[[str], object]
VECTORS = {"delta.enableDeletionVectors": "true"}
CHECKPOINTS = {"delta.checkpointInterval": "2"}


class Writer:
    """Writes to a table by Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rows(self, *ids: int) -> DataFrame:
        pairs = [(each, each % 2) for each in ids]
        return self._spark.createDataFrame(pairs, "id bigint, p int").coalesce(1)

    def append(self, *ids: int, **properties: str) -> Change:
        def change(table: str) -> None:
            writer = self.rows(*ids).write.format("delta").mode("append").partitionBy("p")
            writer.options(**properties).save(table)

        return change

    def sql(self, words: str) -> Change:
        return lambda table: self._spark.sql(words.format(table=f"delta.`{table}`")).collect()


@pytest.fixture
def writer(spark: SparkSession) -> Writer:
    return Writer(spark)


@pytest.fixture
def change(repo: Repository, tmp_path: Path) -> Callable[..., None]:
    """Let Spark commit to a plain copy of a branch's table, checkpoints and vectors included."""

    def change(branch: Branch, *changes: Change) -> None:
        change_table(repo, branch, tmp_path / "work", *changes)

    return change


def ids_of(repo: Repository, ref: str) -> list[int]:
    found = repo.read(ref, TABLE, format="delta").select("id").collect()
    return sorted(row.id for row in found)


def ids_by_rust(repo: Repository, ref: str, folder: Path) -> list[int]:
    """Return the ids as another reader has them of a plain copy."""
    repo.export(ref, str(folder))
    return sorted(DeltaTable(folder / TABLE).to_pyarrow_table().column("id").to_pylist())


@pytest.mark.system
def test_rows_that_are_marked_and_a_wider_schema_unite(
    repo: Repository, writer: Writer, change: Callable[..., None]
) -> None:
    main = repo.branch("main")
    change(main, writer.append(*range(1, 9), **VECTORS))
    dev = repo.create_branch("dev", "main")
    change(dev, writer.append(20), writer.sql("DELETE FROM {table} WHERE id = 2"))
    assert [each for each in repo.objects("dev") if "deletion_vector" in each.path]
    wider = writer.sql("ALTER TABLE {table} ADD COLUMNS (more string)")
    change(main, wider, writer.sql("UPDATE {table} SET id = 31 WHERE id = 1"))
    made = repo.merge("dev", "main")
    assert made.metadata["sparklake.merge.tables"] == TABLE
    assert ids_of(repo, "main") == [3, 4, 5, 6, 7, 8, 20, 31]
    assert repo.read("main", TABLE, format="delta").columns == ["id", "p", "more"]
    # Two vectors of one file.
    change(dev, writer.sql("DELETE FROM {table} WHERE id = 4"))
    change(main, writer.sql("DELETE FROM {table} WHERE id = 4"))
    with pytest.raises(MergeConflictError, match=r"cannot be merged: .*p=0/part-"):
        repo.merge("dev", "main")
    made = repo.merge("dev", "main", "source-wins")
    assert made.metadata["sparklake.merge.winners"] == f"{TABLE}=source-wins"
    assert ids_of(repo, "main") == ids_of(repo, "dev") == [1, 3, 5, 6, 7, 8, 20]


@pytest.mark.system
def test_compactions_and_checkpoints_unite(
    repo: Repository, writer: Writer, change: Callable[..., None], tmp_path: Path
) -> None:
    main = repo.branch("main")
    change(main, writer.append(1, **CHECKPOINTS), writer.append(2), writer.append(3))
    dev = repo.create_branch("dev", "main")
    change(dev, writer.append(5), writer.sql("OPTIMIZE {table}"))
    change(main, writer.append(4), writer.append(6))
    for branch in ("main", "dev"):
        assert f"{4:020}.checkpoint.parquet" in log_of(repo, branch)
    repo.merge("dev", "main")
    assert ids_of(repo, "main") == [1, 2, 3, 4, 5, 6]
    assert ids_by_rust(repo, "main", tmp_path / "merged") == [1, 2, 3, 4, 5, 6]
    # The merged table takes more.
    change(main, writer.append(7))
    assert ids_by_rust(repo, "main", tmp_path / "more") == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.system
def test_both_cannot_overwrite_what_was_empty(repo: Repository, writer: Writer) -> None:
    main = repo.branch("main")
    main.write(writer.rows(2), TABLE, "delta", partition_by=["p"])
    main.commit("created the table")
    dev = repo.create_branch("dev", "main")
    for branch, number in ((dev, 3), (main, 5)):
        words = f"INSERT OVERWRITE {{table}} PARTITION (p = 1) VALUES ({number})"
        with branch.edit_delta(TABLE) as location:
            writer.sql(words)(location)
        branch.commit("overwrote a partition")
    with pytest.raises(MergeConflictError, match=r"both sides overwrote the rows of \(p <=> 1\)"):
        repo.merge("dev", "main")


@pytest.mark.system
def test_directories_of_parquet_need_nothing(repo: Repository, writer: Writer) -> None:
    main = repo.branch("main")
    main.write(writer.rows(1), "tables/plain", partition_by=["p"])
    main.commit("first")
    dev = repo.create_branch("dev", "main")
    for branch, number in ((dev, 2), (main, 3)):
        branch.write(writer.rows(number), "tables/plain", mode="append", partition_by=["p"])
        branch.commit("appended")
    repo.merge("dev", "main")
    assert sorted(row.id for row in repo.read("main", "tables/plain").collect()) == [1, 2, 3]


def restated(table: str) -> None:
    """Add the files of a table's first commit once more, as the computation of statistics does."""
    log = Path(table) / "_delta_log"
    first = map(json.loads, (log / f"{0:020}.json").read_text().splitlines())
    adds = [{"add": {**each["add"], "dataChange": False}} for each in first if "add" in each]
    (log / f"{1:020}.json").write_text("".join(f"{json.dumps(each)}\n" for each in adds))


@pytest.mark.system
def test_rows_that_were_restated_and_updated_come_back(
    repo: Repository, writer: Writer, change: Callable[..., None]
) -> None:
    main = repo.branch("main")
    change(main, writer.append(*range(1, 10)))
    update = writer.sql("UPDATE {table} SET id = 100 WHERE id = 1")
    change(main, restated, update)
    wrong = main.head.id
    change(main, writer.append(20))
    main.revert(wrong)
    assert ids_of(repo, "main") == [*range(1, 10), 20]
    change(main, update)
    main.revert("main")
    assert ids_of(repo, "main") == [*range(1, 10), 20]
    assert log_of(repo, "main")[-1].startswith(f"{6:020}")
