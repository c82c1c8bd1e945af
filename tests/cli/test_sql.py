"""`sparklake sql`: statements on refs without Spark, rows of tables with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import Scene, failed, ok, run, said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_script_on_refs(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    use = f"USE {catalog(scene)};"
    assert said("sql", f"{use} CREATE TAG v1; SHOW TAGS")[0]["name"] == "v1"
    text = ok("sql", f"{use} CREATE BRANCH dev; SHOW BRANCHES")
    assert [line.split()[0] for line in text.splitlines() if "dirty" not in line] == [
        "repository",
        scene.name,
        "dev",
        "dev",
        "main",
    ]
    file = tmp_path / "script.sql"
    file.write_text(f"{use} -- ü;\nSHOW COMMITS LIMIT 1;")
    [commit] = said("sql", "--file", str(file))
    assert commit["metadata"] == {}
    at = f"lakefs://{scene.name}/main"
    [head] = said("sql", "--ref", at, "COMMIT IF NEEDED MESSAGE 'nothing'")
    assert (head["branch"], head["commit_id"]) == ("main", commit["id"])
    script = f"{use} DIFF `main~1` main".encode()
    assert [each["path"] for each in said("sql", "-", stdin=script)] == ["a"]


def test_wrong_calls(scene: Scene) -> None:
    assert "pass either" in failed(2, "sql")
    assert "no statement" in failed(2, "sql", " ; -- x")
    assert "cannot read" in failed(2, "sql", "--file", "/no/such/file")
    assert "needs a repository" in failed(2, "sql", "SHOW TAGS")
    none = f"lakefs://{scene.name}/none"
    assert "none" in failed(13, "sql", "--ref", none, "SHOW TAGS")
    assert "Write COMMIT [IF NEEDED] [REF]" in failed(2, "sql", "COMMIT 'x'")


@pytest.mark.spark
def test_rows_of_tables(scene: Scene, spark: SparkSession) -> None:
    create = f"CREATE TABLE {catalog(scene)}.main.t AS SELECT id, 'é' AS `a b` FROM range(3)"
    [written] = said("sql", create)
    assert (written["path"], written["files"] > 0) == ("t", True)
    query = f"SELECT id, `a b`, id, NULL AS n FROM {catalog(scene)}.main.t ORDER BY id"
    rows = [{"id": each, "a b": "é", "id_2": each, "n": None} for each in range(2)]
    assert said("sql", query, "--limit", "2") == rows
    assert ok("sql", query).splitlines()[1].split() == ["0", "é", "0", "null"]
    # PySpark 4 also logs the error, to stderr.
    wrong = run("--output", "json", "sql", f"SELECT x FROM {catalog(scene)}.main.t")
    assert (wrong.code, "[UNRESOLVED_COLUMN" in wrong.json["error"]) == (2, True)


def catalog(scene: Scene) -> str:
    return f"lakefs.`{scene.name}`"
