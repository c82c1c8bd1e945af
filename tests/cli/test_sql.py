"""`sparklake sql`: statements on refs without Spark, rows of tables with it."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from select import select
from typing import TYPE_CHECKING

import pytest

from sparklake import connect
from sparklake.cli.sql_prompt import candidates
from sparklake.sql.session import SqlSession
from sparklake.uri import RefUri
from tests.cli.running import Scene, failed, ok, run, said
from tests.cli.terminal import SCRIPT, screen

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
    assert "no terminal to type one: pass one, such as" in failed(2, "sql")
    assert "pass either" in failed(2, "sql", "SHOW TAGS", "--file", "x.sql")
    assert "no statement" in failed(2, "sql", " ; -- x")
    assert "cannot read" in failed(2, "sql", "--file", "/no/such/file")
    assert "needs a repository" in failed(2, "sql", "SHOW TAGS")
    none = f"lakefs://{scene.name}/none"
    assert "none" in failed(13, "sql", "--ref", none, "SHOW TAGS")
    assert "Write COMMIT [IF NEEDED] [REF]" in failed(2, "sql", "COMMIT 'x'")


def test_a_prompt_on_a_terminal(scene: Scene, home: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(
        [SCRIPT, "sql"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = typed(ours, b"", until=b"sql> ")
        use = f"USE lakefs.{scene.name[:-3]}".encode()
        shown += typed(ours, use + b"\t", until=scene.name.encode())
        shown += typed(ours, b";\n", until=b"sql> ")
        shown += typed(ours, b"CREATE\nTAG v1;\n", until=b"sql> ")
        shown += typed(ours, b"SHOW TAGS; SHOW\n;\n", until=b"sql> ")
        os.write(ours, b"\x04")
        screen(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert "\nv1 " in text.replace("\r", "")
    assert "error: " in text
    assert "TAG v1;" in (home / "sql_history").read_text()
    assert (home / "sql_history").stat().st_mode & 0o777 == 0o600


def typed(ours: int, text: bytes, until: bytes) -> bytes:
    """Type a text on a terminal, and return what is shown until a text appears after it."""
    os.write(ours, text)
    shown = b""
    while until not in shown:
        assert select([ours], [], [], 120)[0], shown
        shown += os.read(ours, 65536)
    return shown


def test_completion_of_names(scene: Scene) -> None:
    scene.commit("main", {"tables/orders/a": "1", "tables/odd name/b": "2", "x.parquet": "3"})
    scene.branch("fix-1")
    at = f"lakefs.{scene.name}"
    tables = ("`tables/odd name`", "`tables/odd name/", "`tables/orders`", "`tables/orders/")
    with connect() as lake:
        session = SqlSession(lake.repository, lambda: pytest.fail("Spark started"))
        for text, expected in {
            "lakef": ["lakefs."],
            "com": ["COMMIT", "COMMITS"],
            at[:-4]: [at],
            f"{at}.": [f"{at}.`fix-1`", f"{at}.main"],
            f"{at}.main.`tables/o": [f"{at}.main.{each}" for each in tables],
            "other.t": [],
        }.items():
            assert list(candidates(lake, session, text)) == expected
        session.use(RefUri(scene.name, "main"))
        assert list(candidates(lake, session, "tab")) == ["tables", "`tables/"]


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
