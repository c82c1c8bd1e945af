"""A pager on a terminal, by git's rules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Scene, ok
from tests.cli.terminal import SCRIPT, on_terminal

MARKS = "sed s/^/paged:/"


@pytest.fixture
def commands(scene: Scene) -> list[list[str]]:
    scene.commit("main", {f"f{at}": "1" for at in range(3)})
    main, old = scene.uri("main"), scene.uri("main~1")
    return [["diff", old, main], ["log", main], ["ls", scene.uri("main", "")], ["show", main]]


def shown(*words: str, **environment: str) -> str:
    """Return what a terminal shows, without the progress of a busy machine."""
    return on_terminal(*words, stdout=None, command=(SCRIPT,), **environment).rpartition("\x1b[2K")[
        2
    ]


def is_paged(seen: str) -> bool:
    assert seen
    return "paged:" in seen


def test_text_on_a_terminal_is_paged(commands: list[list[str]]) -> None:
    for words in commands:
        assert is_paged(shown(*words, PAGER=MARKS))
    assert "paged:3 added" in shown(*commands[0], PAGER=MARKS)


@pytest.mark.system
def test_what_is_not_paged(commands: list[list[str]], scene: Scene, tmp_path: Path) -> None:
    words = commands[0]
    assert not is_paged(shown("--no-pager", *words, PAGER=MARKS))
    assert not is_paged(shown(*words, "--no-pager", PAGER=MARKS))
    assert not is_paged(shown(*words, "--output", "json", PAGER=MARKS))
    assert not is_paged(shown("cat", scene.uri("main", "f1"), PAGER=MARKS))
    for pager in ("", "cat", "no-such-pager -x"):
        assert "3 added" in shown(*words, PAGER=pager)
    with (tmp_path / "out").open("wb") as file:
        on_terminal(*words, stdout=file, PAGER=MARKS)
    assert not is_paged((tmp_path / "out").read_text())


def test_less_ends_at_once_if_everything_fits(commands: list[list[str]]) -> None:
    shows = "cat > /dev/null; printenv LESS LV"
    assert shown(*commands[1], PAGER=shows).split()[-2:] == ["FRX", "-c"]
    assert shown(*commands[1], PAGER=shows, LESS="S").split()[-2:] == ["S", "-c"]


@pytest.mark.system
def test_a_pager_that_ends_early_ends_the_command_in_silence(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for at in range(3000):
        (folder / f"{at:0150}").touch()
    ok("put", "-r", str(folder), scene.uri("main", ""))
    for words in (["ls", scene.uri("main", "")], ["diff", scene.uri("main")]):
        seen = shown(*words, PAGER="head -n 1")
        assert (seen.count("0" * 147), "Broken" in seen) == (1, False)


def test_an_error_is_shown_without_a_pager(scene: Scene) -> None:
    script = f"{SCRIPT} ls {scene.uri('nothing', '')} || echo code $?"
    seen = on_terminal("-c", script, command=("sh",), PAGER=MARKS)
    assert ("\x1b[31merror:\x1b[0m" in seen, "code 13" in seen) == (True, True)
    assert "paged" not in seen


@pytest.mark.system
def test_long_differences_come_with_a_hint_for_people(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for at in range(101):
        (folder / str(at)).touch()
    ok("put", "-r", str(folder), scene.uri("main", ""))
    words = ["diff", scene.uri("main")]
    assert "--by-folder" in shown(*words)
    ok("rm", scene.uri("main", "0"))
    assert "--by-folder" not in shown(*words)
    ok("put", "-r", str(folder), scene.uri("main", ""))
    ran = subprocess.run([SCRIPT, *words], env=os.environ, capture_output=True, check=True)
    assert ran.stderr == b"101 added\n"
