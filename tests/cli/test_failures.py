"""What goes wrong: every exit code, a clear word, nothing written, and no traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import sparklake
from sparklake import Lake
from sparklake.cli.app import app
from sparklake.verbs import commits
from tests.cli.running import Scene, failed, failure, ok, run, said
from tests.support.cases import for_each
from tests.support.lakes import fingerprint

SPARKLAKE = (sys.executable, "-m", "sparklake.cli")

MALFORMED = ["lake/main", "s3://lake/main", "lakefs://", "lakefs:///main", "lakefs://lake//x"]

# Exit code, kind of error, and a command line in which R is the repository.
FAILURES: list[tuple[int, str, list[str]]] = [
    (13, "repository_not_found", ["ls", "lakefs://nothing-here/main/"]),
    (13, "repository_not_found", ["repo", "delete", "lakefs://nothing-here"]),
    (13, "repository_not_found", ["sql", "SHOW BRANCHES IN lakefs.`nothing-here`"]),
    (13, "object_not_found", ["url", "R/main/nothing"]),
    (13, "ref_not_found", ["ls", "R/nothing/"]),
    (13, "ref_not_found", ["log", "R/main~99"]),
    (13, "ref_not_found", ["log", "R/main^3"]),
    (13, "ref_not_found", ["log", "R/0123456789abcdef"]),
    (13, "ref_not_found", ["put", "-", "R/nothing/a"]),
    (13, "ref_not_found", ["rm", "R/nothing/a"]),
    (13, "ref_not_found", ["rm", "-r", "R/nothing/a"]),
    (13, "ref_not_found", ["mv", "R/nothing/a", "R/nothing/b"]),
    (13, "ref_not_found", ["cp", "R/nothing/a", "R/main/b"]),
    (13, "object_not_found", ["mv", "R/main/nothing/", "R/main/b/"]),
    (13, "ref_not_found", ["commit", "R/main~1", "-m", "x"]),
    (13, "ref_not_found", ["reset", "R/nothing"]),
    (13, "ref_not_found", ["diff", "R/nothing"]),
    (13, "ref_not_found", ["diff", "R/main", "R/nothing"]),
    (13, "ref_not_found", ["merge", "R/nothing", "R/main"]),
    (13, "ref_not_found", ["merge", "R/main~1", "R/nothing"]),
    (13, "ref_not_found", ["revert", "R/main", "R/nothing"]),
    (13, "ref_not_found", ["revert", "R/v0", "R/main"]),
    (13, "ref_not_found", ["cherry-pick", "R/nothing", "R/main"]),
    (13, "ref_not_found", ["rebase", "R/main", "--onto", "R/nothing"]),
    (4, "no_changes", ["rebase", "R/main", "--onto", "R/main"]),
    (13, "ref_not_found", ["hard-reset", "R/main", "R/nothing"]),
    (13, "ref_not_found", ["hard-reset", "R/v0", "R/main"]),
    (13, "ref_not_found", ["hard-reset", "R/main", "R/main", "--expect", "R/nothing"]),
    (13, "ref_not_found", ["op", "undo", "R/v0"]),
    (13, "repository_not_found", ["op", "log", "lakefs://nothing-here"]),
    (13, "repository_not_found", ["gc", "run", "lakefs://nothing-here"]),
    (13, "not_found", ["gc", "list", "R", "nothing"]),
    (2, "invalid_input", ["gc", "rules", "set", "R", "--default", "-1"]),
    (13, "repository_not_found", ["gc", "rules", "show", "lakefs://nothing-here"]),
    (13, "repository_not_found", ["gc", "rules", "clear", "lakefs://nothing-here"]),
    (13, "ref_not_found", ["export", "R/nothing", "--to", "out"]),
    (13, "ref_not_found", ["register", "R/nothing/t", "--from", "out", "--as", "c.d.t"]),
    (13, "repository_not_found", ["writes", "lakefs://nothing-here"]),
    (13, "not_found", ["abandon-write", "R", "nothing"]),
    (13, "not_found", ["purge", "show", "R", "nothing"]),
    (13, "not_found", ["purge", "resume", "R", "nothing"]),
    (13, "repository_not_found", ["purge", "list", "lakefs://nothing-here"]),
    (4, "no_changes", ["purge", "run", "R", "nothing", "--yes"]),
    (13, "ref_not_found", ["diff-table", "R/main", "R/nothing", "table", "--key", "id"]),
    (13, "repository_not_found", ["stage", "lakefs://nothing-here/main", "rows.parquet"]),
    (13, "repository_not_found", ["write", "lakefs://nothing-here/main/t", "--from", "rows.csv"]),
    (2, "invalid_input", ["jobs", "path", "--result-file", "no-such-folder/x"]),
    (13, "ref_not_found", ["merge-base", "R/main", "R/nothing"]),
    (13, "ref_not_found", ["branch", "create", "R/new", "--source", "R/nothing"]),
    (13, "ref_not_found", ["branch", "delete", "R/nothing"]),
    (13, "ref_not_found", ["tag", "create", "R/v1", "R/nothing"]),
    (13, "ref_not_found", ["tag", "delete", "R/nothing"]),
    (13, "ref_not_found", ["import", "R/nothing/", "--from", "."]),
    (13, "object_not_found", ["stat", "R/main/nothing"]),
    (13, "object_not_found", ["cat", "R/main/nothing"]),
    (13, "object_not_found", ["rm", "R/main/nothing"]),
    (13, "object_not_found", ["rm", "-r", "R/main/nothing"]),
    (14, "already_exists", ["branch", "create", "R/main", "--source", "R/main"]),
    (14, "already_exists", ["tag", "create", "R/v0", "R/main"]),
    (14, "already_exists", ["repo", "create", "R", "elsewhere"]),
    (14, "namespace_in_use", ["repo", "create", "lakefs://another-one", "namespace"]),
    (11, "protected", ["branch", "delete", "R/main", "--yes"]),
    (11, "protected", ["branch", "rename", "R/main", "R/new"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "no-such-folder"]),
    (2, "invalid_input", ["import", "R/main/", "--inventory", "no-such-folder/manifest.json"]),
    (2, "invalid_input", ["export", "R/main", "--to", "full/file"]),
    (2, "invalid_input", ["repo", "create", "lakefs://another-one", "full/file"]),
    (2, "invalid_input", ["refs", "restore", "lakefs://restored", "full/file"]),
    (2, "invalid_input", ["repo", "list", "--home", "full/file"]),
    (2, "invalid_input", ["log", "R/main", "--amount", "99999999999999999999"]),
    (2, "invalid_name", ["repo", "create", "lakefs://X", "elsewhere"]),
    (2, "invalid_name", ["repo", "create", "lakefs://Not_Lower", "elsewhere"]),
    (2, "invalid_name", ["branch", "create", "R/a..b", "--source", "R/main"]),
    (2, "invalid_name", ["branch", "create", "R/a~1", "--source", "R/main"]),
    (2, "invalid_name", ["tag", "create", "R/-x", "R/main"]),
    (2, "invalid_name", ["tag", "create", f"R/{'0' * 64}", "R/main"]),
    (2, "invalid_ref", ["log", "R/main~1@"]),
    (2, "invalid_ref", ["log", "R/~1"]),
    (2, "invalid_ref", ["log", "R/main$"]),
    (2, "invalid_ref", ["show", "R/main$"]),
    (13, "ref_not_found", ["show", "R/main~9"]),
    (13, "ref_not_found", ["status", "R/nothing"]),
    (13, "repository_not_found", ["check", "lakefs://nothing-here"]),
    (13, "repository_not_found", ["repair", "lakefs://nothing-here", "--yes"]),
    (13, "ref_not_found", ["log", "R/main", "--after", "nope"]),
    (13, "ref_not_found", ["log", "R/main", "--stop-at", "nope"]),
    (2, "invalid_input", ["log", "R/main", "--since", "yesterday"]),
    (2, "invalid_input", ["log", "R/main", "--until", "2024-13-01"]),
    (2, "invalid_input", ["log", "R/main", "--since", "2024-01-02", "--until", "2024-01-01"]),
    (2, "invalid_ref", ["ls", "R/v0$/"]),
    (2, "invalid_ref", ["log", "R/v0@"]),
    (2, "invalid_key", ["put", "-", "R/main//a"]),
    (2, "invalid_key", ["put", "-", "R/main/a/../b"]),
    (2, "invalid_key", ["put", "-", f"R/main/{'k' * 1025}"]),
    (13, "object_not_found", ["cat", "R/main/../x"]),
    (2, "invalid_key", ["put", "-", "R/main/a\0b"]),
    (2, "invalid_uri", ["put", "-", "R/main/\udcff"]),
    (2, "invalid_input", ["put", "-", "R/main/"]),
    (2, "invalid_uri", ["put", "-", "R/main"]),
    (2, "invalid_uri", ["rm", "R/main/"]),
    (2, "invalid_uri", ["rm", "-r", "R/main"]),
    (2, "invalid_uri", ["stat", "R/main"]),
    (2, "invalid_uri", ["log", "R"]),
    (2, "invalid_uri", ["log", "R/main/a"]),
    (2, "invalid_uri", ["commit", "R/main/a", "-m", "x"]),
    (2, "invalid_uri", ["branch", "list", "R/main"]),
    (2, "invalid_uri", ["ls", "R"]),
    (2, "invalid_uri", ["diff", "R/main", "lakefs://other/main"]),
    (2, "invalid_uri", ["merge", "R/main", "lakefs://other/main"]),
    (2, "invalid_uri", ["revert", "R/main", "lakefs://other/main"]),
    (2, "invalid_uri", ["hard-reset", "R/main", "lakefs://other/main"]),
    (2, "invalid_uri", ["hard-reset", "R/main", "R/main", "--expect", "lakefs://other/main"]),
    (2, "invalid_uri", ["op", "log", "R/main/a"]),
    (2, "invalid_uri", ["op", "undo", "R"]),
    (2, "invalid_uri", ["cherry-pick", "R/main", "R/main", "lakefs://other/main"]),
    (2, "invalid_uri", ["branch", "create", "R/new", "--source", "lakefs://other/main"]),
    (2, "invalid_uri", ["tag", "create", "R/new", "lakefs://other/main"]),
    (2, "invalid_uri", ["import", "R/main/", "--from", "ftp://bucket/x"]),
    (2, "invalid_input", ["diff", "R/main", "--three-way"]),
    (2, "invalid_input", ["commit", "R/main", "-m", " "]),
    (2, "invalid_input", ["commit", "R/main", "-m", "x", "--meta", "no-value"]),
    (2, "invalid_input", ["commit", "R/main", "-m", "x", "--meta", "=v"]),
    (2, "invalid_input", ["revert", "R/main", "R/main", "--parent-number", "2"]),
    (2, "invalid_input", ["cherry-pick", "R/main", "R/main", "--meta", "x"]),
    (2, "invalid_input", ["reset", "R/main", "--prefix", "a", "--object", "a"]),
    (2, "invalid_key", ["reset", "R/main", "--object", ""]),
    (2, "invalid_input", ["put", "no-such-file", "R/main/a"]),
    (2, "invalid_input", ["put", ".", "R/main/a"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "namespace"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "empty"]),
    (2, "invalid_input", ["import", "R/main/"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "full", "--inventory", "s3://b/m.json"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "full", "--inventory-prefix", "raw/"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "full", "--errors-to", "namespace/in"]),
    (2, "invalid_input", ["import", "R/main/", "--from", "full", "--errors-to", "full"]),
    (2, "invalid_input", ["repo", "create", "lakefs://other", "x", "--range-records", "0"]),
    (4, "no_changes", ["commit", "R/main", "-m", "x"]),
    (4, "no_changes", ["merge", "R/main", "R/main"]),
    (4, "no_changes", ["merge", "R/main~1", "R/main"]),
    (4, "no_changes", ["revert", "R/main", "R/main~2"]),
    (5, "unexpected_head", ["hard-reset", "R/main", "R/v0", "--expect", "R/main~1"]),
    (4, "no_changes", ["cherry-pick", "R/main", "R/main"]),
    (12, "ref_store_unavailable", ["repo", "list", "--dsn", "host=/nonexistent dbname=none"]),
    (13, "repository_not_found", ["branch", "list", "lakefs://nothing-here"]),
    (13, "repository_not_found", ["tag", "list", "lakefs://nothing-here"]),
    (2, "invalid_uri", ["tag", "list", "R/main"]),
    (13, "repository_not_found", ["refs", "dump", "lakefs://nothing-here"]),
    (2, "invalid_uri", ["refs", "dump", "R/main"]),
    (10, "missing_file", ["refs", "restore", "lakefs://restored", "empty"]),
    (10, "missing_file", ["refs", "restore", "lakefs://restored", "namespace"]),
    (2, "invalid_input", ["refs", "restore", "lakefs://restored", "no-such-folder"]),
    (14, "already_exists", ["refs", "restore", "R", "empty"]),
    (2, "invalid_name", ["refs", "restore", "lakefs://X", "empty"]),
    (2, "invalid_name", ["refs", "restore", "lakefs://restored", "empty", "--default-branch", "-"]),
    (2, "invalid_input", ["refs", "restore", "lakefs://restored", "empty", "--range-records", "0"]),
    (13, "ref_not_found", ["show", "R/nothing"]),
    (2, "invalid_uri", ["show", "R"]),
    (2, "invalid_uri", ["merge-base", "R/main", "lakefs://other/main"]),
    (2, "invalid_ref", ["merge-base", "R/main", "R/main~x"]),
    (4, "nothing_to_do", ["op", "undo", "R/still"]),
    (4, "dirty_branch", ["op", "undo", "R/dirty"]),
    (4, "dirty_branch", ["hard-reset", "R/dirty", "R/main"]),
    (4, "dirty_branch", ["revert", "R/dirty", "R/main"]),
    (4, "dirty_branch", ["cherry-pick", "R/dirty", "R/main"]),
    (4, "dirty_branch", ["import", "R/dirty/", "--from", "full"]),
    (3, "merge_conflict", ["merge", "R/other", "R/main"]),
    (3, "merge_conflict", ["cherry-pick", "R/main", "R/other"]),
    (3, "merge_conflict", ["revert", "R/main", "R/other"]),
    (2, "invalid_input", ["revert", "R/main", "R/joined"]),
    (2, "invalid_input", ["cherry-pick", "R/main", "R/joined", "--parent-number", "3"]),
    (2, "invalid_key", ["reset", "R/main", "--prefix", "\udcff"]),
    (13, "ref_not_found", ["reset", "R/v0", "--prefix", "a"]),
    (2, "invalid_key", ["diff", "R/main", "R/v0", "--prefix", "\udcff"]),
    (13, "ref_not_found", ["blame", "R/nothing/"]),
    (2, "invalid_uri", ["blame", "R"]),
    (2, "invalid_input", ["log", "R/main", "--path", "a", "--prefix", "a"]),
    (2, "invalid_input", ["diff", "R/main", "R/v0", "--tree", "--summary"]),
    (2, "invalid_input", ["diff", "R/main", "--three-dot"]),
    (2, "invalid_input", ["diff", "R/main", "R/v0", "--three-dot", "--three-way"]),
    (13, "ref_not_found", ["restore", "R/main", "--from", "R/nothing", "--path", "a"]),
    (13, "ref_not_found", ["restore", "R/nothing", "--from", "R/main", "--path", "a"]),
    (13, "object_not_found", ["restore", "R/main", "--from", "R/v0", "--path", "nothing/"]),
    (4, "no_changes", ["restore", "R/main", "--from", "R/main", "--path", "a"]),
    (13, "object_not_found", ["restore", "R/main", "--from", "R/v0", "--path", "a/../b"]),
    (4, "no_changes", ["merge", "R/other", "R/main", "--path", "a/../b"]),
    (2, "invalid_key", ["commit", "R/dirty", "-m", "x", "--path", ""]),
    (4, "no_changes", ["commit", "R/main", "-m", "x", "--path", "nothing/"]),
    (13, "ref_not_found", ["merge", "R/nothing", "R/main", "--dry-run"]),
    (13, "ref_not_found", ["branch", "set", "R/nothing", "--never"]),
    (11, "protected", ["branch", "set", "R/main", "--expires", "7d"]),
    (13, "repository_not_found", ["branch", "prune", "lakefs://nothing-here"]),
    (2, "invalid_input", ["protect", "add", "R", "a/*"]),
    (13, "repository_not_found", ["protect", "list", "lakefs://nothing-here"]),
    (13, "not_found", ["protect", "remove", "R", "nothing"]),
    (13, "not_found", ["hooks", "show", "R", "nothing"]),
    (13, "repository_not_found", ["hooks", "runs", "lakefs://nothing-here"]),
    (2, "invalid_input", ["hooks", "validate", "no-such-file"]),
    (2, "invalid_input", ["repo", "set", "R", "--meta", "no-value"]),
    (13, "repository_not_found", ["repo", "show", "lakefs://nothing-here"]),
    (4, "nothing_to_do", ["cache", "show"]),
    (4, "nothing_to_do", ["cache", "clear"]),
    (2, "invalid_input", ["completion", "tcsh"]),
    *((2, "invalid_uri", ["log", text]) for text in MALFORMED),
    *((2, "invalid_uri", ["ls", text]) for text in MALFORMED),
]

USAGE = [
    [],
    ["nothing"],
    ["ls"],
    ["commit", "lakefs://lake/main"],
    ["branch", "create"],
    ["jobs", "path", "nothing"],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "mine"],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a"],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a="],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "=none"],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a=mine"],
    ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a**=none"],
    ["revert", "lakefs://lake/a"],
    ["op", "log", "lakefs://lake", "--amount", "0"],
    ["hard-reset", "lakefs://lake/a"],
    ["revert", "lakefs://lake/a", "lakefs://lake/b", "--parent-number", "0"],
    ["cherry-pick", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "mine"],
    ["--output", "yaml", "repo", "list"],
    ["repo", "list", "--engine", "dask"],
    ["log", "lakefs://lake/main", "--amount", "0"],
    ["log", "lakefs://lake/main", "--no-such-option"],
]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Scene:
    """Return a repository that no failure may change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKLAKE_HOME", str(home))
        scene = Scene(tmp_path_factory.mktemp("lasting"))
        (scene.folder / "empty").mkdir()
        (scene.folder / "full").mkdir()
        (scene.folder / "full" / "file").write_text("1")
        scene.commit("main", {"a": "1"})
        ok("tag", "create", scene.uri("v0"), scene.uri("main"))
        scene.branch("joined")
        other, _ = scene.branch("other"), scene.branch("still")
        scene.commit("other", {"both": "theirs"})
        scene.commit("joined", {"joined": "1"})
        ok("merge", other, scene.uri("joined"))
        scene.commit("main", {"both": "ours"})
        scene.branch("dirty")
        scene.put("dirty", {"staged": "1", "a": None})
    return scene


@pytest.fixture(scope="module")
def lake(home: Path) -> Iterator[Lake]:
    """Look at what the commands may not change: all refs, staged rows and moves, and all files."""
    with sparklake.connect(home=home) as opened:
        yield opened


@pytest.fixture
def untouched(lasting: Scene, lake: Lake) -> dict[str, Any]:
    return fingerprint(lake, lasting.folder, names=[lasting.name])


@for_each(("code", "kind", "words"), FAILURES)
def test_a_failure_is_named_and_changes_nothing(
    lasting: Scene,
    lake: Lake,
    untouched: dict[str, Any],
    code: int,
    kind: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(lasting.folder)
    command = [re.sub(r"^R(?=/|$)", lasting.uri(), word) for word in words]
    error = failure(code, *command)
    assert error["kind"] == kind
    assert error["error"]
    assert "Traceback" not in error["error"]
    assert fingerprint(lake, lasting.folder, names=[lasting.name]) == untouched


def test_every_command_fails_somewhere() -> None:
    """A new command needs bad input of its own in the table."""
    commands = set(command_names(get_command(app)))
    assert {("merge",), ("op", "undo")} < commands
    tried = {name for _, _, words in FAILURES for name in commands if words[: len(name)] == [*name]}
    assert commands - tried == set()


def command_names(command: Any, *parents: str) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield parents
        return
    for name, inner in command.commands.items():
        yield from command_names(inner, *parents, name)


@for_each("words", USAGE)
def test_wrong_usage_is_2(words: list[str]) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert "Usage: sparklake" in ran.err + ran.text


def test_an_ambiguous_prefix(scene: Scene) -> None:
    ids = {said("log", scene.uri("main"))[0]["id"]}
    for at in range(17):  # by then, two ids begin alike
        ids.add(scene.commit("main", {"a": str(at)})["id"])
        starts = [each[0] for each in ids]
        shared = next((each for each in starts if starts.count(each) > 1), None)
        if shared:
            break
    assert "add more digits" in failed(13, "log", scene.uri(shared))
    (one, *_) = ids
    assert said("log", scene.uri(one[:20]), "--amount", "1")[0]["id"] == one


def test_a_conflict_is_3(scene: Scene) -> None:
    assert run("merge", *scene.diverge()).code == 3


def test_uncommitted_changes_in_the_way_are_4(scene: Scene, tmp_path: Path) -> None:
    dev, main = scene.diverge()
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").write_text("1")
    scene.put("main", {"c": "1", "right": "3"})
    assert "uncommitted changes" in failed(4, "merge", dev, main, "--strategy", "dest-wins")
    assert "uncommitted changes" in failed(4, "import", f"{main}/x/", "--from", str(tmp_path / "x"))


def test_a_lost_race_is_5(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.put("main", {"a": "1"})
    meanwhile(monkeypatch, lambda: ok("commit", scene.uri("main"), "-m", "the other one"))
    ran = run("--output", "json", "commit", scene.uri("main"), "-m", "this one")
    assert (ran.code, ran.json["kind"]) == (5, "already_committed")
    assert said("log", scene.uri("main"))[0]["message"] == "the other one"


def meanwhile(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another writer act once, while a commit computes."""
    apply_layers = commits.apply_layers

    def racing(*arguments: Any) -> Any:
        patch.setattr(commits, "apply_layers", apply_layers)
        act()
        return apply_layers(*arguments)

    patch.setattr(commits, "apply_layers", racing)


def test_a_stale_dsn_is_1() -> None:
    said_of_it = failed(12, "repo", "list", "--dsn", "host=/nonexistent dbname=none")
    assert "Check the server" in said_of_it


def test_an_object_gone_from_below_is_1(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    Path(said("stat", scene.uri("main", "a"))["address"].removeprefix("file://")).unlink()
    assert "missing from" in failed(10, "cat", scene.uri("main", "a"))


def test_a_listing_that_breaks_leaves_no_whole_list(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklake.cli import objects
    from sparklake.errors import CorruptFileError

    scene.put("main", {"a": "1", "b": "2"})
    documents = objects.object_document

    def breaking(each: Any) -> Any:
        if each.path == "b":
            raise CorruptFileError("the range is torn")
        return documents(each)

    monkeypatch.setattr(objects, "object_document", breaking)
    ran = run("ls", "-r", scene.uri("main"), "--output", "json")
    assert ran.code == 10
    with pytest.raises(json.JSONDecodeError):
        json.loads(ran.out)
    assert json.loads(ran.err) == {"error": "the range is torn", "kind": "corrupt_file"}


def test_what_nobody_foresaw_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparklake.cli.invocation.load_settings", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("repo", "list")


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)  # It may reach another thread first.

    monkeypatch.setattr("sparklake.cli.invocation.load_settings", interrupt)
    ran = run("repo", "list")
    assert (ran.code, ran.out) == (130, b"")
    assert ran.err.startswith("error: interrupted; unfinished work changed no branch")
    ran = run("repo", "list", "--output", "json")
    assert (ran.code, ran.json["kind"], ran.err) == (130, "interrupted", "")


@pytest.mark.system
def test_a_reader_that_goes_away_is_no_error(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    for words in (["log", scene.uri("main")], ["branch", "list", scene.uri()], ["repo", "list"]):
        process = subprocess.Popen(
            [*SPARKLAKE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["branch", "delete", "R/mian"], "main"),
        (["log", "R/trnuk"], "trunk"),
        (["log", "R/relaese"], "release"),
        (["ls", "R/qqqq/"], None),
        (["repo", "show", "R-"], "R"),
    ],
)
def test_a_mistyped_name_is_guessed(scene: Scene, words: list[str], meant: str | None) -> None:
    scene.branch("trunk")
    ok("branch", "create", scene.uri("hidden-qqqq"), "--source", scene.uri("main"), "--hidden")
    ok("tag", "create", scene.uri("release"), scene.uri("main"))
    said_of_it = failed(13, *(each.replace("R", scene.uri()) for each in words))
    if meant is None:
        assert "did you mean" not in said_of_it
    else:
        assert f"(did you mean '{meant.replace('R', scene.name)}'?)" in said_of_it


@pytest.mark.parametrize("word", ["checkout", "switch"])
def test_what_git_calls_a_checkout_is_explained(scene: Scene, word: str) -> None:
    ran = run(word, scene.uri("main"))
    assert (ran.code, ran.out) == (2, b"")
    text = " ".join(ran.err.split())
    assert f"there is no command '{word}'. sparklake has no working copy" in text
    for other in ("`branch create`", "`ls`", "`export`", "`repo.at(ref)`"):
        assert other in text


def test_a_log_accepts_the_option_of_git_for_a_graph(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    assert ok("log", "--graph", scene.uri("main")) == ok("log", scene.uri("main"))
    ran = run("log", "--graph", scene.uri("main"), "--output", "json")
    assert (ran.code, "--picture FILE" in ran.json["error"]) == (2, True)


def test_a_branch_with_a_slash_is_refused_with_another_name(scene: Scene) -> None:
    other = scene.uri("feature-x")
    said = failed(2, "branch", "create", scene.uri("feature/x"), "--source", scene.uri("main"))
    assert said.endswith(f"or {other}, because names of branches and tags contain no '/'")
    ok("branch", "create", other, "--source", scene.uri("main"))
