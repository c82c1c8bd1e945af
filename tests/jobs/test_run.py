"""Jobs take the arguments of the command, and print JSON."""

from __future__ import annotations

import subprocess
import sys

from sparklake.cli.jobs import FILE
from sparklake.errors import NotFoundError
from tests.cli.running import Scene, ok
from tests.cli.terminal import on_terminal
from tests.jobs.running import job, run
from tests.support.cases import for_each


def test_the_path_is_that_of_the_file() -> None:
    assert ok("jobs", "path") == f"{FILE}\n"
    assert FILE.is_file()


@for_each(
    "words",
    [
        *(["log", "lakefs://lake/main", "--amount", each] for each in ("0", "-1", "x")),
        ["log", "lakefs://lake/main", "--amoun", "1"],
        ["commit", "-m", "what"],
        ["branch create"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "mine"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a"],
        ["revert", "lakefs://lake/a"],
        ["repo list", "--engine", "dask"],
        ["stat"],
    ],
)
def test_what_is_wrong_for_the_command_is_wrong_for_the_job(words: list[str]) -> None:
    ran = run(*words)
    assert (ran.code, ran.out) == (2, b"")


def test_help_is_that_of_the_command() -> None:
    words = [sys.executable, str(FILE), "branch", "create", "-h"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "Usage: run.py branch create [OPTIONS]" in said
    assert "Create a branch at any ref" in said


def test_a_job_asks_nobody(scene: Scene) -> None:
    script = (sys.executable, FILE, "repo", "delete")
    assert "pass --yes" in job(2, "repo delete", scene.uri())["error"]
    seen = on_terminal(scene.uri(), "--output", "text", "--yes", command=script)
    assert "is deleted" in seen
    assert "[y/N]" not in seen


def test_lines_are_printed_where_they_are_asked_for(scene: Scene) -> None:
    ran = run("branch list", scene.uri(), "--output", "jsonl")
    assert ran.json["name"] == "main"
    error = job(13, "abandon-write", scene.uri(), "none")
    assert error["kind"] == NotFoundError.kind
