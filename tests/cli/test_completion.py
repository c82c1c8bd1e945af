"""Completion of command lines: a real bash, and what the scripts of zsh and fish get."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sparklake.cli.completion import answers, names
from sparklake.cli.completion.scripts import SCRIPTS
from sparklake.cli.main import _grammar
from tests.cli.running import Scene, ok, run, said
from tests.cli.terminal import SCRIPT

# A busy machine may need longer than the deadline.
PROGRAM = """#!{python}
import sys
from sparklake.cli.completion import answers
from sparklake.cli.main import main

answers.DEADLINE_SECONDS = 200
sys.exit(main())
"""

# Readline breaks words as bash does. Only the text of the current word is passed on.
BASH = r"""
set -u
source "$2"
COMP_LINE=$3
COMP_POINT=${#COMP_LINE}
_sparklake "$1" "$4" ""
for each in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do printf '%s\n' "$each"; done
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = tmp_path / "bin" / "sparklake"
    found.parent.mkdir()
    found.write_text(PROGRAM.format(python=sys.executable))
    found.chmod(0o755)
    return found


def bash(program: Path, words: str, part: str | None = None) -> list[str]:
    """Return what bash puts in place of the last part of a command line."""
    script = program.with_name("script.bash")
    script.write_text(ok("completion", "bash"))
    if part is None:
        part = words.rpartition(" ")[2]
        part = part[max(part.rfind(each) for each in ":=") + 1 :]
    command = ["bash", "-c", BASH, "bash", program, script, f"sparklake {words}", part]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> list[str]:
    """Return what the script of zsh or fish gets for a command line."""
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(answers, "DEADLINE_SECONDS", 200)
        patch.setenv("_SPARKLAKE_COMPLETE", "zsh")
        patch.setenv("_TYPER_COMPLETE_ARGS", f"sparklake {words}")
        assert answers.answer_shell(_grammar()) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out.splitlines()


@pytest.fixture
def filled(scene: Scene) -> Scene:
    scene.commit("main", {"raw/a.csv": "1", "raw/old/b.csv": "2", "read me.txt": "3", "x": "4"})
    scene.branch("dev:joe=1")
    ok("tag", "create", scene.uri("v1"), scene.uri("main"))
    return scene


def test_bash_completes_commands_and_options(program: Path) -> None:
    assert bash(program, "me") == ["merge", "merge-base"]
    assert bash(program, "branch c") == ["create"]
    assert bash(program, "branch create --so") == ["--source"]
    assert bash(program, "completion ") == ["bash", "zsh", "fish"]
    assert bash(program, "merge --strategy dest") == ["dest-wins"]
    assert bash(program, "merge --strategy=dest") == ["dest-wins"]
    assert bash(program, "merge --rule 'raw/**=dest", "raw/**=dest") == ["raw/**=dest-wins"]
    assert bash(program, "put lakefs") == []


def test_bash_completes_uris_after_their_last_colon(program: Path, filled: Scene) -> None:
    repository = f"//{filled.name}"
    assert bash(program, f"log lakefs:{repository[:-1]}") == [f"{repository}/"]
    assert bash(program, f"gc run lakefs:{repository[:-1]}") == [repository]
    assert bash(program, f"log {filled.uri('')}") == [
        f"{repository}/dev:joe=1",
        f"{repository}/main",
        f"{repository}/v1",
    ]
    assert bash(program, f"commit {filled.uri('v')}") == []
    assert bash(program, f"tag delete {filled.uri('v')}") == [f"{repository}/v1"]
    assert bash(program, f"log {filled.uri('dev:j')}") == ["joe=1"]
    assert bash(program, f"log {filled.uri('dev:joe=')}") == ["1"]
    assert bash(program, f"ls {filled.uri('main')}") == [f"{repository}/main/"]
    assert bash(program, f"merge --onto x {filled.uri('main~1')}") == []


@pytest.mark.system
def test_bash_completes_paths_by_folder(program: Path, filled: Scene) -> None:
    start = f"//{filled.name}/main/"
    assert bash(program, f"ls {filled.uri('main', 'r')}") == [
        f"{start}raw/",
        f"{start}read\\ me.txt",
    ]
    assert bash(program, f"cat {filled.uri('main~0', 'raw/')}") == [
        f"//{filled.name}/main~0/raw/a.csv",
        f"//{filled.name}/main~0/raw/old/",
    ]
    typed = filled.uri("main", "read\\ m")
    assert bash(program, f"cat {typed}", f"{start}read\\ m") == [f"{start}read\\ me.txt"]
    quoted = filled.uri("main", "read m")
    assert bash(program, f"cat '{quoted}", quoted) == [f"{quoted}e.txt"]


@pytest.mark.system
def test_bash_runs_no_part_of_a_path(program: Path, filled: Scene) -> None:
    filled.put("main", {"q$(id)": "1", "q'; id; '": "2", "q": "3"})
    start = filled.uri("main", "q")
    assert bash(program, f'cat "{start}', start) == [start, f"{start}'; id; '"]
    assert bash(program, f"cat '{start}", start) == [start, f"{start}$(id)"]
    place = start.removeprefix("lakefs:")
    assert bash(program, f"cat {start}") == [
        place,
        f"{place}\\$\\(id\\)",
        f"{place}\\'\\;\\ id\\;\\ \\'",
    ]


def test_options_complete_parts_of_the_uri(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], filled: Scene
) -> None:
    def found(words: str) -> list[str]:
        return answer(monkeypatch, capsys, words)

    assert found(f"log {filled.uri('main')} --after v") == ["v1\ttag"]
    assert found(f"diff {filled.uri('main')} --prefix ra") == ["raw/"]
    assert found(f"commit {filled.uri('main')} --path=raw/o") == ["--path=raw/old/"]
    assert found(f"export {filled.uri()}/v") == [
        f"{filled.uri('v1')}\ttag",
        f"{filled.uri('v1', '')}\ttag",
    ]
    assert found("write --mode over") == ["overwrite", "overwrite-partitions"]
    assert "merge\tMerge a ref into a branch, or list the conflicts." in found("--version ")
    assert found("checkout ") == found("put ") == found("ls --home ") == []


def test_a_long_folder_shows_its_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], filled: Scene
) -> None:
    monkeypatch.setattr(names, "_MAX_PATHS", 2)
    assert answer(monkeypatch, capsys, f"ls {filled.uri('main', 'r')}") == [
        filled.uri("main", "raw/"),
        filled.uri("main", "read me.txt"),
    ]
    filled.put("main", {"ready": "1", "odd\x1b[31m": "2"})
    assert answer(monkeypatch, capsys, f"ls {filled.uri('main', 'r')}")[2:] == [
        f"{filled.uri('main', 'r...')}\tmore than 2"
    ]
    assert answer(monkeypatch, capsys, f"ls {filled.uri('main', 'o')}") == []


def test_completion_starts_and_creates_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, dsn: str
) -> None:
    missing = tmp_path / "missing"
    assert answer(monkeypatch, capsys, f"log --home {missing} lakefs://") == []
    missing.mkdir()
    assert answer(monkeypatch, capsys, f"log --home={missing} lakefs://") == []
    assert not list(missing.iterdir())
    assert answer(monkeypatch, capsys, f"log --dsn '{dsn}' lakefs://") == []
    assert said("repo", "list", "--dsn", dsn) == []


def test_an_unreachable_server_prints_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        line = f"sparklake log --dsn 'host=127.0.0.1 port={port}' lakefs://"
        ran = subprocess.run(
            [SCRIPT],
            env={**os.environ, "_SPARKLAKE_COMPLETE": "fish", "_TYPER_COMPLETE_ARGS": line},
            capture_output=True,
            check=True,
        )
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_the_scripts_are_printed() -> None:
    for shell, script in SCRIPTS.items():
        assert said("completion", shell) == {"shell": shell, "script": script.strip()}
        assert ok("completion", shell) == script.lstrip()


def test_there_is_one_way_to_install_completion() -> None:
    """Typer's own script knows no names of a lake, and would take the place of ours."""
    assert "completion" in ok("--help")
    assert "-completion" not in ok("--help")
    for option in ("--install-completion", "--show-completion"):
        assert run(option).code == 2
