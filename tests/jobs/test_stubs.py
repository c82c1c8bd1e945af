"""Jobs are stubs without logic: every command has one, and each names a command."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import sparklake
from sparklake.cli.app import app
from sparklake.errors import NotFoundError
from tests.cli.running import Scene
from tests.cli.terminal import on_terminal
from tests.jobs.running import job, run

FOLDER = Path(sparklake.__file__).parent / "jobs"
JOBS = sorted({path.stem for path in FOLDER.glob("*.py")} - {"__init__", "runner"})

NOT_JOBS = {
    "quickstart",  # a demo, on a lake of its own
    "cache show",  # of the machine where it is typed
    "cache clear",
    "hooks validate",  # of files, before they are in a lake
    "jobs path",
    "completion",  # for the shell where it is typed
}

STUB = '''"""spark-submit entry point of `sparklake {name}`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job({words})

if __name__ == "__main__":
    sys.exit(main())
'''


def leaves(name: str, command: Any) -> Iterator[str]:
    """Yield the names of a command or of the commands below it, with all their words."""
    if not hasattr(command, "commands"):
        yield name
    for word, inner in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {word}".strip(), inner)


COMMANDS = set(leaves("", get_command(app)))


def command_of(name: str) -> str:
    """Return the words that a stub passes to its runner."""
    (call,) = (
        each
        for each in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "job"
    )
    return " ".join(ast.literal_eval(each) for each in call.args)


def test_every_command_has_one_job_and_every_job_a_command() -> None:
    assert sorted(map(command_of, JOBS)) == sorted(COMMANDS - NOT_JOBS)
    assert NOT_JOBS <= COMMANDS


@pytest.mark.parametrize("name", JOBS)
def test_a_job_holds_no_logic(name: str) -> None:
    words = command_of(name)
    quoted = ", ".join(f'"{each}"' for each in words.split())
    assert (FOLDER / f"{name}.py").read_text() == STUB.format(name=words, words=quoted)


@pytest.mark.parametrize("name", JOBS)
def test_wrong_usage_is_2(name: str) -> None:
    ran = run(name, "--no-such-option")
    assert (ran.code, ran.out) == (2, b"")
    assert "Usage: " in ran.err


@pytest.mark.parametrize(
    "words",
    [
        *(["log", "lakefs://lake/main", "--amount", each] for each in ("0", "-1", "x")),
        ["log", "lakefs://lake/main", "--amoun", "1"],
        ["commit", "-m", "what"],
        ["create_branch"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "mine"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a"],
        ["revert", "lakefs://lake/a"],
        ["list_repositories", "--engine", "dask"],
        ["stat"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_for_the_command_is_wrong_for_the_job(words: list[str]) -> None:
    ran = run(*words)
    assert (ran.code, ran.out) == (2, b"")


def test_help_is_that_of_the_command_under_the_name_of_the_file() -> None:
    words = [sys.executable, str(FOLDER / "create_branch.py"), "-h"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "Usage: create_branch.py [OPTIONS]" in said
    assert "Create a branch at any ref" in said


def test_a_job_asks_nobody(scene: Scene) -> None:
    script = (sys.executable, FOLDER / "delete_repository.py")
    refusal = job(2, "delete_repository", scene.uri())
    assert "pass --yes" in refusal["error"]
    seen = on_terminal(scene.uri(), "--output", "text", "--yes", command=script)
    assert "is deleted" in seen
    assert "[y/N]" not in seen


def test_lines_are_printed_where_they_are_asked_for(scene: Scene) -> None:
    ran = run("list_branches", scene.uri(), "--output", "jsonl")
    assert ran.json["name"] == "main"
    error = job(13, "abandon_write", scene.uri(), "none")
    assert error["kind"] == NotFoundError.kind
