"""Tables are checked by Spark at the tree that is to be published, and at no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Engine, Lake, Repository
from sparklake.config import HookSettings
from sparklake.engine.choice import Runners
from sparklake.errors import HookFailedError
from sparklake.hooks import quality
from sparklake.testing.memory import MemoryRefStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "conf" / "hooks" / "tables.yaml"


@pytest.fixture
def repository(spark: SparkSession, tmp_path: Path) -> Repository:
    """Is a repository whose main is guarded by the example, with one table that is in order."""
    settings = HookSettings(allow=("python:sparklake.hooks.quality:*",))
    lake = Lake(MemoryRefStore(), Runners(Engine.AUTO, spark), "tester", hooks=settings)
    made = lake.create_repository("lake", str(tmp_path / "namespace"))
    main = made.branch("main")
    main.put_file("_sparklake/hooks/tables.yaml", EXAMPLE)
    write(spark, made, "main", "tables/orders", [(1, 5.0), (2, None)])
    main.commit("begin")
    return made


def write(
    spark: SparkSession,
    repository: Repository,
    branch: str,
    path: str,
    rows: list[tuple[int | None, float | None]],
    mode: str = "append",
) -> None:
    frame = spark.createDataFrame(rows, "id int, amount double").coalesce(1)
    repository.branch(branch).write(frame, path, mode=mode)


@pytest.mark.spark
def test_a_merge_of_bad_rows_is_refused(spark: SparkSession, repository: Repository) -> None:
    dev = repository.create_branch("dev", "main")
    # Fine by itself: it is the tree of the merge in which an id is there twice.
    write(spark, repository, "dev", "tables/orders", [(3, 1.0), (3, -1.0), (None, 2.0)])
    write(spark, repository, "dev", "tables/items", [(1, 1.0)])
    write(spark, repository, "dev", "raw/unchecked", [(None, -1.0)])
    dev.commit("bad rows")
    head = repository.resolve("main")
    with pytest.raises(HookFailedError) as raised:
        repository.merge("dev", "main")
    said = str(raised.value)
    assert "tables/orders: not_null id fails for 1 of 5 rows" in said
    assert "tables/orders: expression amount >= 0 fails for 1 of 5 rows" in said
    assert "tables/orders: unique id fails for 2 of 5 rows" in said
    assert "tables/items" not in said
    assert "raw" not in said
    assert repository.resolve("main") == head
    write(spark, repository, "dev", "tables/orders", [(1, 0.0), (9, None)], "overwrite")
    dev.commit("mended")
    merged = repository.merge("dev", "main")
    (run, *_) = repository.hook_runs(1)
    assert run.commit_id == merged.id
    assert run.hooks[0].output == "checked tables/items, tables/orders"


@pytest.mark.system
@pytest.mark.spark
def test_both_sides_may_be_fine_and_their_merge_is_not(
    spark: SparkSession, repository: Repository
) -> None:
    dev = repository.create_branch("dev", "main")
    write(spark, repository, "dev", "tables/orders", [(7, 1.0)])
    dev.commit("seven")
    write(spark, repository, "main", "tables/orders", [(7, 1.0)])
    repository.branch("main").commit("seven, too")
    with pytest.raises(HookFailedError, match="unique id fails for 2 of 4 rows"):
        repository.merge("dev", "main")


@pytest.mark.spark
def test_a_table_that_is_gone_or_unchanged_is_not_checked(repository: Repository) -> None:
    dev = repository.create_branch("dev", "main")
    dev.put("other", b"x")
    dev.commit("other")
    repository.merge("dev", "main")
    assert repository.hook_runs(1)[0].hooks[0].output == "checked no table: none has changed"
    dev.delete_prefix("tables/")
    dev.commit("no tables")
    repository.merge("dev", "main")
    assert repository.resolve("main").parents[1] == repository.resolve("dev").id


def test_what_is_wrong_in_the_arguments_refuses(tmp_path: Path) -> None:
    lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL), "tester", hooks=HookSettings(("python",)))
    main = lake.create_repository("lake", str(tmp_path / "namespace")).branch("main")
    text = EXAMPLE.read_text().replace("not_null", "not_nul").replace("pre-merge", "pre-commit")
    main.put("_sparklake/hooks/tables.yaml", text.encode())
    main.commit("begin")
    main.put("a", b"1")
    with pytest.raises(HookFailedError, match="unknown field `not_nul`"):
        main.commit("change")


def test_the_function_that_the_example_names() -> None:
    assert f"function: {quality.__name__}:{quality.check_tables.__name__}" in EXAMPLE.read_text()
