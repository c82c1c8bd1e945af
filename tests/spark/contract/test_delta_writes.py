"""Delta tables: written on a branch, read as plain Delta by Delta itself and by the Rust reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable as RustTable

from sparklake import Branch, Repository
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MissingDependencyError,
    TableChangedError,
)
from sparklake.frames.tables import spark_sources
from sparklake.graveler.ports import WriteState
from sparklake.session import delta_package
from sparklake.testing.lakes import contents
from sparklake.verbs.delta import write as delta_writes
from tests.support.recorded_reads import recorded_states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/a b"
ODD = "a b/c=d:é%"


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


@pytest.fixture
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(*rows: tuple[Any, ...], schema: str = "id int, name string") -> DataFrame:
        return spark.createDataFrame(list(rows), schema).coalesce(1)

    return make


def edit(
    branch: Branch, act: Callable[[str], object], path: str = TABLE, *, history: bool = False
) -> None:
    with branch.edit_delta(path, history=history) as location:
        act(location)


def rows_at(spark: SparkSession, repo: Repository, ref: str, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the table as any reader of Delta finds them in a copy of the tree."""
    place = folder / f"copy-of-{ref}"
    found = contents(repo, ref)
    for path, body in found.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(body)
    assert not any(path.endswith(".crc") for path in found)
    assert not any(str(repo.info.storage_namespace).encode() in body for body in found.values())
    table = place / TABLE
    rows = spark.read.format("delta").load(f"file://{table}").collect()
    rust = RustTable(str(table))
    assert rust.to_pyarrow_dataset().count_rows() == len(rows)
    for each in rust.file_uris():
        assert unquote(each).startswith(str(table)) or each.startswith(str(table))
    return sorted((tuple(each) for each in rows), key=repr)


@pytest.mark.system
def test_a_table_is_appended_to_overwritten_and_edited(
    spark: SparkSession,
    repo: Repository,
    main: Branch,
    frame: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    first = main.write(frame((1, "one"), (2, ODD)), TABLE, "delta", partition_by=["name"])
    assert (first.path, first.files) == (TABLE, 2)
    main.commit("first")
    with pytest.raises(AlreadyExistsError):
        main.write(frame((9, "x")), TABLE, "delta")
    assert main.write(frame((9, "x")), TABLE, "delta", mode="ignore").files == 0
    with recorded_states() as reads:
        main.write(frame((3, None), (4, ODD)), TABLE, "delta", mode="append")
    assert len(reads) == 2, "before Spark works, and when the write lands"
    main.commit("second")
    dev = repo.create_branch("dev", "main")

    # What users run: MERGE, UPDATE and DELETE, on files that lie in the places of other writes.
    with dev.edit_delta(TABLE) as location:
        frame((1, "uno"), (5, "five")).createOrReplaceTempView("news")
        spark.sql(
            f"MERGE INTO delta.`{location}` old USING news new ON old.id = new.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 2")
        spark.sql(f"UPDATE delta.`{location}` SET id = 44 WHERE id = 4")
    dev.commit("edited")
    with dev.edit_delta(TABLE):
        pass
    assert not dev.is_dirty

    main.write(frame((7, "one")), TABLE, "delta", mode="overwrite-partitions")
    main.commit("one partition")
    assert rows_at(spark, repo, "main", tmp_path) == [(2, ODD), (3, None), (4, ODD), (7, "one")]
    assert rows_at(spark, repo, "dev", tmp_path) == [(1, "uno"), (3, None), (44, ODD), (5, "five")]
    wide = frame((8, "eight", 0.5), schema="id int, name string, more double")
    main.write(wide, TABLE, "delta", mode="append", mergeSchema=True)
    main.write(frame((2, "two")), TABLE, "delta", mode="overwrite", replaceWhere="name = 'two'")
    main.write(frame((0, "zero")), f"{TABLE} next to it", "delta", mode="append")
    expected = [(2, ODD), (2, "two"), (3, None), (4, ODD), (7, "one")]
    found = rows_at(spark, repo, "main", tmp_path / "again")
    assert found == sorted([*((*each, None) for each in expected), (8, "eight", 0.5)], key=repr)
    main.write(frame((6, "six")), TABLE, "delta", mode="overwrite", overwriteSchema=True)
    assert rows_at(spark, repo, "main", tmp_path / "last") == [(6, "six")]
    # The versions before the checkpoint of version 10 are in the copy only on request.
    restore = "RESTORE delta.`{}` TO VERSION AS OF 0"
    edit(main, lambda location: spark.sql(restore.format(location)), history=True)
    assert rows_at(spark, repo, "main", tmp_path / "restored") == [(1, "one"), (2, ODD)]
    assert {each.state for each in repo.writes()} == {WriteState.ABANDONED}, "the empty edit"


@pytest.mark.system
def test_writers_at_once(
    spark: SparkSession,
    repo: Repository,
    main: Branch,
    frame: Callable[..., DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main.write(frame((1, "one")), TABLE, "delta")
    staged = delta_writes._Copy.stage

    def meanwhile(act: Callable[[], object]) -> None:
        def once(copy: Any) -> Any:
            monkeypatch.setattr(delta_writes._Copy, "stage", staged)
            act()
            return staged(copy)

        monkeypatch.setattr(delta_writes._Copy, "stage", once)

    meanwhile(lambda: main.write(frame((2, "two")), TABLE, "delta", mode="append"))
    main.write(frame((3, "three")), TABLE, "delta", mode="append")
    assert rows_at(spark, repo, "main", tmp_path) == [(1, "one"), (2, "two"), (3, "three")]

    def delete_and_append(location: str) -> None:
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 3")
        main.write(frame((4, "four")), TABLE, "delta", mode="append")

    with pytest.raises(TableChangedError, match="nothing was staged"):
        edit(main, delete_and_append)
    meanwhile(lambda: main.write(frame((5, "five")), TABLE, "delta", mode="append"))
    main.write(frame((6, "six")), TABLE, "delta", mode="overwrite")
    assert rows_at(spark, repo, "main", tmp_path / "over") == [(6, "six")]


@pytest.mark.exhaustive
def test_an_imported_table_with_a_checkpoint_is_written_to(
    spark: SparkSession,
    repo: Repository,
    main: Branch,
    frame: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    table = tmp_path / "elsewhere" / "it"
    for number in range(4):
        writer = frame((number, f"é {number}")).write.format("delta").mode("append")
        writer.option("delta.checkpointInterval", 2).partitionBy("name").save(table.as_uri())
    assert (table / "_delta_log" / f"{2:020d}.checkpoint.parquet").is_file()
    for number in (0, 1):
        (table / "_delta_log" / f"{number:020d}.json").unlink()
    for other in [*table.rglob("*.crc")]:
        other.unlink()
    main.import_objects(str(table), TABLE)
    with main.edit_delta(TABLE) as location:
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id < 2")
    main.write(frame((99, "new")), TABLE, "delta", mode="append")
    main.delete(f"{TABLE}/_delta_log/_last_checkpoint")
    found = rows_at(spark, repo, "main", tmp_path)
    assert found == [(2, "é 2"), (3, "é 3"), (99, "new")]


@pytest.mark.system
def test_what_cannot_be_done_is_said_and_stages_nothing(
    spark: SparkSession, repo: Repository, main: Branch, frame: Callable[..., DataFrame]
) -> None:
    main.write(frame((1, "one")), "tables/files")
    main.write(frame((1, "one")), TABLE, "delta")
    main.commit("both")
    with pytest.raises(InvalidInputError, match="no Delta log"):
        main.write(frame((2, "two")), "tables/files", "delta", mode="append")
    with pytest.raises(InvalidInputError, match="is a Delta table"):
        main.write(frame((2, "two")), TABLE, "parquet", mode="append")
    with pytest.raises(InvalidInputError, match="no Delta table"):
        edit(main, pytest.fail, "tables/files")

    def delete_and_fail(location: str) -> None:
        spark.sql(f"DELETE FROM delta.`{location}`")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        edit(main, delete_and_fail)

    main.write(frame((3, "three")), "tables/files", "delta", mode="overwrite")
    assert not any(each.path.endswith("_SUCCESS") for each in repo.objects("main", "tables/files"))


def test_a_session_without_delta_is_told(
    repo: Repository, main: Branch, frame: Callable[..., DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(_: SparkSession) -> spark_sources._Missing:
        return spark_sources._Missing.JAR

    monkeypatch.setattr(spark_sources, "_missing_for_delta", lacking)
    with pytest.raises(MissingDependencyError, match=f"lacks the jar {delta_package()}"):
        main.write(frame((1, "one")), TABLE, "delta")
    with pytest.raises(MissingDependencyError, match="cannot read Delta tables"):
        edit(main, pytest.fail)
    assert repo.writes() == []


@pytest.mark.system
def test_rows_are_deleted_by_vectors_in_every_edit(
    spark: SparkSession,
    repo: Repository,
    main: Branch,
    frame: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    enabled = {"delta.enableDeletionVectors": "true"}
    main.write(frame(*((each, ODD) for each in range(100))), TABLE, "delta", **enabled)

    def vectors() -> list[str]:
        return [each.path for each in repo.objects("main", TABLE) if "deletion_vector" in each.path]

    # The files, and then their vectors, lie in the places of other writes.
    for number in (1, 2, 50):
        edit(main, lambda at, n=number: spark.sql(f"DELETE FROM delta.`{at}` WHERE id = {n}"))
    assert len(vectors()) == 3
    main.commit("deleted")
    edit(main, lambda at: spark.sql(f"UPDATE delta.`{at}` SET id = -id WHERE id IN (3, 4)"))
    main.write(frame((200, "new")), TABLE, "delta", mode="append")
    main.commit("updated")
    expected = {*range(100), -3, -4, 200} - {1, 2, 3, 4, 50}
    assert {row["id"] for row in repo.read("main", TABLE, "delta").collect()} == expected
    place = tmp_path / "copy"
    for path, body in contents(repo, "main").items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(body)
        assert str(repo.info.storage_namespace).encode() not in body
    copied = spark.read.format("delta").load(f"file://{place / TABLE}")
    assert {row["id"] for row in copied.collect()} == expected
    edit(main, lambda at: spark.sql(f"REORG TABLE delta.`{at}` APPLY (PURGE)"))
    edit(main, lambda at: spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF 2"))
    assert repo.read("main", TABLE, "delta").count() == 98
