"""Commands that read and write rows by Spark, and where the jobs are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sparklake
from tests.cli.running import Scene, failed, ok, run, said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "path string, size bigint, address string, deleted boolean"


@pytest.fixture
def rows(tmp_path: Path, spark: SparkSession) -> str:
    """Return where rows of two objects are: `in/a` of two bytes, and `b`, which is removed."""
    file = tmp_path / "one"
    file.write_text("22")
    found = [("in/a", 2, file.as_uri(), False), ("b", None, None, True)]
    spark.createDataFrame(found, SCHEMA).write.json(str(tmp_path / "rows"))
    return str(tmp_path / "rows")


@pytest.mark.spark
def test_rows_are_staged_and_their_differences_saved(
    scene: Scene, rows: str, tmp_path: Path, spark: SparkSession
) -> None:
    scene.commit("main", {"b": "1"})
    main = scene.uri("main")
    text = ok("stage", main, rows, "--format", "json")
    assert text == f"staged the rows of {rows} on {main}\n"
    to = str(tmp_path / "diff")
    text = ok("diff", main, "--to", to)
    assert text == f"1 added, 1 removed; the rows are in {to}\n"
    found = {(row["type"], row["path"]) for row in spark.read.parquet(to).collect()}
    assert found == {("added", "in/a"), ("removed", "b")}
    assert f"Spark cannot write to {to}: [PATH_ALREADY_EXISTS]" in failed(
        2, "diff", main, "--to", to
    )
    counts = {"added": 1, "removed": 1, "changed": 0, "conflict": 0}
    assert said("diff", main, "--to", f"{to}-2") == counts
    wrong = failed(2, "stage", main, f"{rows}-none")
    assert f"Spark cannot read {rows}-none as parquet: [PATH_NOT_FOUND]" in wrong
    assert "Spark cannot read" in failed(2, "stage", main, rows, "--format", "no.such.format")


@pytest.mark.spark
def test_rows_are_imported(scene: Scene, tmp_path: Path, spark: SparkSession) -> None:
    place = str(tmp_path / "rows")
    schema = "path string, size bigint, address string, checksum string"
    spark.createDataFrame([("a", 1, "s3://bucket/a", "x")], schema).write.parquet(place)
    made = said("import", scene.uri("main", "in"), "--rows", place)
    assert made["objects"] == 1
    assert scene.paths("main") == ["in/a"]
    for other in (("--from", place), ("--inventory", place), ("--inventory-prefix", "a")):
        assert "choose one source" in failed(
            2, "import", scene.uri("main"), "--rows", place, *other
        )
    assert "choose one source" in failed(2, "import", scene.uri("main"))


@pytest.mark.spark
def test_a_table_is_written(scene: Scene, tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "rows.csv").write_text("id;day\n1;1\n2;2\n")
    target = scene.uri("main", "t")
    words = (target, "--from", str(tmp_path / "rows.csv"), "--source-format", "csv")
    words += ("--source-option", "header=true", "--source-option", "sep=;", "--partition-by", "day")
    made = said("write", *words, "--option", "compression=none")
    assert (made["path"], made["files"]) == ("t", len(scene.paths("main")))
    assert {path.split("/")[1] for path in scene.paths("main", "t/day")} == {"day=1", "day=2"}
    assert "staged 3 files of " in ok("write", *words, "--mode", "overwrite")
    assert "is not a write mode" in failed(2, "write", *words, "--mode", "sometimes")
    wrong = failed(2, "write", *words, "--mode", "overwrite", "--partition-by", "no")
    assert f"Spark cannot write {target}: " in wrong


@pytest.mark.system
@pytest.mark.spark
def test_rows_in_conflict_are_saved(
    scene: Scene, tmp_path: Path, spark: SparkSession, home: Path
) -> None:
    def save(name: str, values: str) -> None:
        with sparklake.connect(home=home) as lake:
            branch = lake.repository(scene.name).branch(name)
            rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, a)").coalesce(1)
            branch.write(rows, "t", mode="overwrite")
            branch.commit(values)

    save("main", "(1, 1), (2, 2)")
    dev, main, file = scene.branch("dev"), scene.uri("main"), tmp_path / "rows.jsonl"
    save("dev", "(1, 3), (2, 2)")
    save("main", "(1, 4), (2, 5)")
    merge = "merge", dev, main, "--rule"
    ran = run(*merge, "t/=rows(id, columns=true)", "--conflict-rows", str(file))
    assert ran.code == 3
    assert f"the rows in conflict are in {file}" in ran.err
    (row,) = map(json.loads, file.read_text().splitlines())
    assert row == {
        "table": "t",
        "key": '{"id":1}',
        "column": "a",
        "base": "1",
        "source": "3",
        "dest": "4",
    }
    assert (
        f"conflict to {file}: File exists"
        in run(*merge, "t/=rows(id)", "--conflict-rows", str(file)).err
    )
    for verb in (("cherry-pick", main, dev), ("rebase", dev, "--onto", main)):
        again = tmp_path / verb[0]
        rule = "--rule", "t/=rows(id, columns=true)", "--conflict-rows", str(again)
        ran = run("--output", "json", *verb, *rule)
        assert (ran.code, ran.json["conflict_rows"]) == (3, [row])
        assert again.read_text() == file.read_text()
    wrong = run(*merge, "t/=rows(id, then=our)")
    assert wrong.code == 2
    assert "'our' is not a merge strategy" in wrong.err
    ok(*merge, "t/=rows(id, then=theirs)")
    with sparklake.connect(home=home) as lake:
        merged = lake.repository(scene.name).read("main", "t").collect()
    assert sorted(map(tuple, merged)) == [(1, 3), (2, 5)]
