"""Names of others never reach a terminal as what it obeys."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from sparklake.errors import HookFailedError, MissingFileError, StoreError
from tests.cli.running import Ran, Scene, ok, run
from tests.jobs.running import job

ODD = "x\x1b[2J\x9b31m\u202e[bold]\r\nerror: y"
SHOWN = "x\\x1b[2J\\x9b31m\\u202e[bold]\\r\\nerror: y"


def obeyed(text: str) -> set[str]:
    """Return what a terminal would obey, but for line ends."""
    return {each for each in text if not each.isprintable()} - {"\n"}


def refused(*arguments: str) -> Ran:
    ran = run(*arguments)
    assert ran.code != 0
    assert (obeyed(ran.err), obeyed(ran.text)) == (set(), set())
    return ran


def test_names_in_errors_are_shown(scene: Scene, tmp_path: Path) -> None:
    odd = str(tmp_path / ODD)
    main = scene.uri("main", "k")
    for arguments in (
        ("put", odd, main),
        ("put", "-r", odd, main),
        ("import", main, "--from", odd),
        ("repo", "create", "lakefs://another", f"file://{scene.namespace}/{ODD}"),
        ("cat", scene.uri("main", ODD)),
        ("refs", "restore", "lakefs://another", odd),
    ):
        assert SHOWN in refused(*arguments).err, arguments
    said = job(2, "put", "-r", odd, main)["error"]
    assert SHOWN in said


def test_a_namespace_that_is_gone_is_named_as_it_is_spelled(scene: Scene, tmp_path: Path) -> None:
    place = tmp_path / ODD
    ok("repo", "create", "lakefs://gone", str(place))
    ok("put", str(Path(__file__)), "lakefs://gone/main/k")
    shutil.rmtree(place)
    assert SHOWN in refused("cat", "lakefs://gone/main/k").err
    assert SHOWN in refused("commit", "lakefs://gone/main", "-m", "x").err


def test_what_was_named_is_shown_in_tables_and_notes(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    ok("purge", "run", "--yes", f"lakefs://{scene.name}", "a", ODD, "--commit", "-m", ODD)
    text = ok("purge", "list", f"lakefs://{scene.name}")
    assert SHOWN in text
    assert obeyed(text) == set()


def test_the_output_of_other_programs_keeps_its_lines() -> None:
    error = HookFailedError("one\n\ttwo\x1b[2J")
    assert str(error) == "one\n\ttwo\\x1b[2J"


@pytest.mark.parametrize("kind", [StoreError, MissingFileError])
def test_the_text_of_an_error_has_nothing_to_obey(kind: type[StoreError]) -> None:
    error = kind(f"{ODD}\tand more")
    assert str(error).isprintable()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(kind(str(error))) == str(error)
