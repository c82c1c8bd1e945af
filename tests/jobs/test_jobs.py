"""Every job in this process, on the Spark of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake.session import submitted_session
from tests.cli.running import Scene, ok, said
from tests.jobs.running import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_a_repository_and_a_branch(tmp_path: Path) -> None:
    uri = f"lakefs://jobs-{tmp_path.name.replace('_', '-').lower()}"
    made = job(0, "repo create", uri, str(tmp_path / "ns"), "--default-branch", "trunk")
    assert made["default_branch"] == "trunk"
    assert job(14, "repo create", uri, str(tmp_path / "ns"))["kind"] == "already_exists"
    assert made in said("repo", "list")
    at = job(0, "branch create", f"{uri}/dev", "--source", f"{uri}/trunk")
    listed = said("branch", "list", uri)[0]
    assert at == {name: value for name, value in listed.items() if name != "head"}
    assert job(13, "branch create", f"{uri}/x", "--source", f"{uri}/no")["kind"] == "ref_not_found"


def test_an_import(scene: Scene, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("1")
    words = ("import", scene.uri("main", "raw/"), "--from", str(source))
    made = job(0, *words, "-m", "load", "--meta", "k=v", "--committer", "joe")
    assert (made["message"], made["committer"], made["metadata"]) == ("load", "joe", {"k": "v"})
    assert scene.paths("main") == ["raw/a"]
    assert job(4, *words)["kind"] == "no_changes"
    scene.commit("main", {"raw/a": "correct"})
    refused = job(4, *words)
    assert (refused["kind"], refused["changed"]) == ("replacement", 1)
    assert job(0, *words, "--replace")["changed"] == 1
    assert job(2, *words, "--meta", "k")["kind"] == "invalid_input"


@pytest.mark.system
def test_an_import_of_rows(scene: Scene, tmp_path: Path, spark: SparkSession) -> None:
    rows = [("a", 1, "s3://bucket/a", "x"), ("b", -1, "s3://bucket/b", "x"), ("c", 3, "c", "x")]
    schema = "path string, size bigint, address string, checksum string"
    sources = {form: str(tmp_path / form) for form in ("parquet", "json")}
    for form, place in sources.items():
        spark.createDataFrame(rows, schema).write.format(form).save(place)
    scene.commit("main", {"in/kept": "1"})
    words = ("import", scene.uri("main", "in"))
    counts = {"invalid_address": 1, "invalid_size": 1}
    refused = job(2, *words, "--rows", sources["parquet"])
    assert (refused["kind"], refused["counts"]) == ("import_errors", counts)
    errors = str(tmp_path / "errors")
    skip = ("--skip-errors", "--errors-to", errors)
    made = job(0, *words, "--rows", sources["json"], "--format", "json", *skip)
    assert (made["objects"], made["counts"], made["errors_to"]) == (1, counts, f"file://{errors}")
    assert {row.path: row.reason for row in spark.read.parquet(errors).collect()} == {
        "in/b": "invalid_size",
        "in/c": "invalid_address",
    }
    assert scene.paths("main") == ["in/a", "in/kept"]
    both = job(2, *words, "--rows", sources["json"], "--from", str(tmp_path))
    assert (both["kind"], "choose one source" in both["error"]) == ("invalid_input", True)


def test_rows_are_staged_committed_and_compared(
    scene: Scene, tmp_path: Path, spark: SparkSession
) -> None:
    scene.commit("main", {"gone": "1", "kept": "1"})
    file = tmp_path / "one"
    file.write_text("22")
    rows = [
        {"path": "new", "size": 2, "address": f"file://{file}", "deleted": False},
        {"path": "gone", "size": None, "address": None, "deleted": True},
    ]
    schema = "path string, size bigint, address string, deleted boolean"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "rows"))
    staged = job(0, "stage", scene.uri("main"), str(tmp_path / "rows"))
    assert (staged["name"], staged["dirty"]) == ("main", True)
    counts = {"added": 1, "removed": 1, "changed": 0, "conflict": 0}
    found = job(0, "diff", scene.uri("main"))
    assert [(each["type"], each["path"]) for each in found] == [
        ("removed", "gone"),
        ("added", "new"),
    ]
    assert found == said("diff", scene.uri("main"))
    made = job(0, "commit", scene.uri("main"), "-m", "bulk", "--meta", "k=v")
    assert made == said("log", scene.uri("main"))[0]
    assert scene.paths("main") == ["kept", "new"]
    assert ok("cat", scene.uri("main", "new")) == "22"
    target = str(tmp_path / "diff")
    words = ("diff", scene.uri("main~1"), scene.uri("main"), "--to", target, "--prefix", "n")
    assert job(0, *words) == {**counts, "removed": 0}
    (row,) = spark.read.parquet(target).collect()
    assert (row["type"], row["path"], row["size"]) == ("added", "new", 2)
    assert job(4, "commit", scene.uri("main"), "-m", "again")["kind"] == "no_changes"
    assert job(2, "commit", scene.uri("main"), "-m", " ")["kind"] == "invalid_input"
    assert job(0, "commit", scene.uri("main"), "-m", "e", "--allow-empty")["generation"] == 4
    assert job(2, "diff", scene.uri("main"), "--three-way")["kind"] == "invalid_input"


def test_a_merge_and_its_log(scene: Scene) -> None:
    dev, main = scene.diverge()
    failure = job(3, "merge", dev, main, "--engine", "spark")
    assert failure["kind"] == "merge_conflict"
    assert [row["path"] for row in failure["conflicts"]] == ["both"]
    found = job(0, "diff", main, dev, "--three-way", "--engine", "spark")
    assert found == said("diff", main, dev, "--three-way")
    assert {each["path"]: each["type"] for each in found} == {
        "both": "conflict",
        "right": "removed",
    }
    made = job(0, "merge", dev, main, "--strategy", "source-wins", "--engine", "spark")
    assert job(0, "log", main, "--amount", "1") == [made]
    assert job(0, "log", main) == said("log", main)
    assert ok("cat", scene.uri("main", "both")) == "dev!"


def test_spark_is_begun_at_once_only_for_who_asked_for_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    assert submitted_session() is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert submitted_session() is spark


def test_sql(scene: Scene) -> None:
    name = f"lakefs.`{scene.name}`"
    script = f"CREATE TABLE {name}.main.t AS SELECT 1 AS id; COMMIT {name}.main MESSAGE 'load'"
    assert job(0, "sql", script)[0]["message"] == "load"
