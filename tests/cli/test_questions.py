"""Nothing is lost for good before a person at a terminal agrees, or a program passes --yes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sparklake import connect
from tests.cli.running import Scene, failed, ok, run, said
from tests.cli.terminal import screen


def answered(answer: bytes, *words: str) -> tuple[int, str]:
    """Run the command on a terminal where an answer is typed; return its exit code and screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sparklake.cli", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    os.write(ours, answer)
    seen = screen(ours)
    return process.wait(), seen.decode()


def names() -> list[str]:
    return [each["name"] for each in said("repo", "list")]


@pytest.mark.parametrize(
    "answer",
    [b"n\n", *(pytest.param(each, marks=pytest.mark.system) for each in (b"\n", b"\x04"))],
    ids=repr,
)
def test_only_a_yes_deletes(scene: Scene, answer: bytes) -> None:
    code, seen = answered(answer, "repo", "delete", scene.uri())
    assert code == 130
    assert "Traceback" not in seen
    assert scene.name in names()


def test_a_yes_deletes_and_the_question_names_what_is_lost(scene: Scene) -> None:
    code, seen = answered(b"y\n", "repo", "delete", scene.uri())
    assert code == 0
    asked = " ".join(seen.split())
    for word in (
        scene.uri(),
        "branches",
        "tags",
        "commits",
        "staged",
        str(scene.namespace),
        "[y/N]",
    ):
        assert word in asked
    assert scene.name not in names()


@pytest.mark.parametrize("option", ["--yes", "-y"])
def test_an_option_spares_the_question(scene: Scene, option: str) -> None:
    code, seen = answered(b"", "repo", "delete", scene.uri(), option)
    assert (code, "[y/N]" in seen) == (0, False)
    assert scene.name not in names()


def test_json_on_a_terminal_is_for_a_program(scene: Scene) -> None:
    code, seen = answered(b"", "repo", "delete", scene.uri(), "--output=json")
    assert (code, "[y/N]" in seen, "pass --yes" in seen) == (2, False, True)
    assert scene.name in names()


@pytest.mark.parametrize(
    ("words", "loss"),
    [
        (["repo", "delete", "R"], "branches, tags, commits and 6 staged changes"),
        (["branch", "delete", "R/clean"], "deletes lakefs://"),
        (["branch", "delete", "R/dirty", "--discard-staged"], "and its 3 staged changes"),
        (["branch", "prune", "R"], "1 expired branch, with 2 staged changes"),
        (["tag", "delete", "R/v1"], "tag create"),
        (["reset", "R/dirty"], "3 staged changes"),
        (["reset", "R/dirty", "--prefix", "new/"], "3 staged changes"),
        (["hard-reset", "R/dirty", "R/v1", "--force"], "3 staged changes"),
        (["purge", "run", "R", "a", "-m", "request", "--commit"], "permanently deletes a"),
        (["gc", "run", "R"], "permanently deletes all objects"),
    ],
)
def test_without_a_terminal_nothing_is_lost_without_yes(
    scene: Scene, words: list[str], loss: str
) -> None:
    """Each of these destroys what `op undo` cannot bring back."""
    scene.commit("main", {"a": "1"})
    ok("tag", "create", scene.uri("v1"), scene.uri("main"))
    for name, keys in (("clean", ""), ("dirty", "xyz"), ("expired", "xy"), ("other", "x")):
        scene.branch(name)
        scene.put(name, {f"new/{key}": key for key in keys})
    with connect() as lake:
        branches = lake.repository(scene.name)._context.refs.branches
        branches.set_lifetime("expired", timedelta(seconds=-1))
    given = [each.replace("R", scene.uri(), 1) if each[0] == "R" else each for each in words]

    def state() -> Any:
        return [said(noun, "list", scene.uri()) for noun in ("branch", "tag")]

    before = state()
    error = failed(2, *given)
    assert loss in error
    assert error.endswith("cannot ask for confirmation without a terminal; pass --yes to confirm")
    assert state() == before
    assert run(*given, "--yes").code != 2


def test_where_nothing_is_lost_nobody_needs_to_agree(scene: Scene) -> None:
    first, _ = scene.commit("main", {"a": "1"}), scene.commit("main", {"a": "2"})
    main = scene.uri("main")
    assert ok("reset", main) == f"dropped 0 staged changes: {main} has none now\n"
    ok("hard-reset", main, scene.uri(first["id"]), "--force")
    undone = f"undid the hard-reset to {first['id'][:12]} by tester\n"
    assert ok("op", "undo", main).endswith(undone)
    assert "undid the undo to " in ok("op", "undo", main)
    assert said("op", "undo", main)["undone"]["verb"] == "undo"
    ok("branch", "prune", scene.uri())
    scene.put("main", {"b": "1", "c": "1", "c/d": "1"})
    assert said("reset", main, "--prefix", "c", "--yes")["dropped"] == 2
    assert ok("reset", main, "--yes").startswith("dropped 1 staged change: ")
    told = ok("gc", "run", scene.uri(), "--dry-run")
    assert "\n3 objects more: unreferenced, in the grace period\n" in told
    assert "no repository" in failed(13, "repo", "delete", "lakefs://nothing-here")
    assert "no tag" in failed(13, "tag", "delete", scene.uri("v9"))


def test_staged_changes_are_only_deleted_on_request(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    dev = scene.branch("dev")
    scene.put("dev", {"a": None, "b": "1"})
    error = failed(4, "branch", "delete", dev, "--yes")
    assert "'dev' has 2 staged changes" in error
    assert "--discard-staged" in error
    assert len(said("diff", dev)) == 2
    assert said("branch", "delete", dev, "--yes", "--discard-staged")["deleted"] is True


def test_what_is_not_there_is_not_asked_about() -> None:
    code, seen = answered(b"", "repo", "delete", "lakefs://nothing-here")
    assert (code, "[y/N]" in seen) == (13, False)


# --- deletions of objects -------------------------------------------------------------------------

DELETIONS = [["gc", "run"], ["purge", "run", "users/*", "-m", "request 7", "--commit"]]


def words_of(deletion: list[str], scene: Scene, *options: str) -> list[str]:
    """Return a deletion that takes what this test has put; all that is there is old enough."""
    command, verb, *rest = deletion
    spared = ["--grace", "0m"] if command == "gc" else []
    return [command, verb, scene.uri(), *rest, *spared, *options]


@pytest.fixture
def doomed(scene: Scene, tmp_path: Path) -> Scene:
    """Leave an object that nothing names, and one that a purge is told of."""
    body = tmp_path / "body"
    for content in (b"first", b"second"):
        body.write_bytes(content)
        ok("put", str(body), scene.uri("main/users/1"))
    ok("commit", scene.uri("main"), "-m", "one user")
    assert len(objects_of(scene)) == 2
    return scene


def objects_of(scene: Scene) -> list[Path]:
    return [each for each in (scene.namespace / "data").rglob("*") if each.is_file()]


@pytest.mark.system
@pytest.mark.parametrize("deletion", DELETIONS, ids=" ".join)
def test_only_a_yes_deletes_objects(doomed: Scene, deletion: list[str]) -> None:
    code, seen = answered(b"n\n", *words_of(deletion, doomed))
    assert code == 130
    assert "[y/N]" in seen
    assert "Traceback" not in seen
    assert len(objects_of(doomed)) == 2
    code, seen = answered(b"y\n", *words_of(deletion, doomed))
    assert (code, "permanently" in " ".join(seen.lower().split())) == (0, True)
    assert len(objects_of(doomed)) == 1


@pytest.mark.system
@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
@pytest.mark.parametrize("deletion", DELETIONS, ids=" ".join)
def test_an_option_spares_the_question_of_objects(
    doomed: Scene, deletion: list[str], option: str
) -> None:
    code, seen = answered(b"", *words_of(deletion, doomed, option))
    assert (code, "[y/N]" in seen) == (0, False)
    assert len(objects_of(doomed)) == (2 if option == "--dry-run" else 1)


# --- moves and deletions of branches --------------------------------------------------------------


def test_a_deletion_of_a_branch_asks_and_says_how_to_undo_it(scene: Scene) -> None:
    head, dev = scene.commit("main", {"a": "1"}), scene.branch("dev")
    code, seen = answered(b"n\n", "branch", "delete", dev)
    assert (code, "[y/N]" in seen, "staged" in seen) == (130, True, False)
    scene.put("dev", {"b": "1"})
    code, seen = answered(b"", "branch", "delete", dev)
    assert (code, "[y/N]" in seen, "--discard-staged" in seen) == (4, False, True)
    code, seen = answered(b"y\n", "branch", "delete", dev, "--discard-staged")
    assert (code, "1 staged change" in " ".join(seen.split())) == (0, True)
    again = f"branch create {dev} --source {scene.uri(head['id'][:12])}"
    assert again in " ".join(seen.replace("\r\n", "").split())
    ok(*again.split())
    assert ok("branch", "delete", dev, "--yes") == (
        f"{dev} is deleted; `sparklake {again}` creates it again\n"
    )
    ok(*again.split())
    assert answered(b"", "branch", "delete", dev, "--yes")[0] == 0


@pytest.mark.system
def test_a_hard_reset_that_drops_changes_asks_and_says_how_to_undo_it(scene: Scene) -> None:
    first = scene.commit("main", {"a": "1"})
    second = scene.commit("main", {"a": "2"})
    main, back = scene.uri("main"), scene.uri("main~1")
    scene.put("main", {"b": "1"})
    code, seen = answered(b"n\n", "hard-reset", main, back, "--force")
    assert (code, "1 staged change" in " ".join(seen.split())) == (130, True)
    assert said("log", main)[0] == second
    code, seen = answered(b"y\n", "hard-reset", main, back, "--force")
    assert (code, "op undo" in seen) == (0, True)
    assert said("log", main)[0] == first
    ok("op", "undo", main)
    assert said("log", main)[0] == second
    assert answered(b"", "hard-reset", main, back, "-y")[0] == 0


@pytest.mark.system
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 10), (b"y\n", 0)], ids=repr)
def test_each_step_of_a_repair_is_asked_for(scene: Scene, answer: bytes, code: int) -> None:
    scene.commit("main", {"a": "the same", "b": "the same"})
    lost = Path(said("stat", scene.uri("main", "b"))["address"].removeprefix("file://"))
    lost.unlink()
    ended, seen = answered(answer, "repair", scene.uri())
    assert ended == code
    assert "an object is missing at its address" in seen
    assert ("it was declined" in seen) == (code != 0)
    assert lost.exists() == (code == 0)


def test_an_import_asks_before_it_undoes_corrections(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "source" / name).write_text(name)
    words = ("import", scene.uri("main", "raw/"), "--from", str(tmp_path / "source"))
    ok(*words)
    fix, main = scene.branch("fix"), scene.uri("main")
    scene.commit("fix", {"raw/a": "correct", "raw/own": "1"})
    ok("merge", fix, main)
    (tmp_path / "source" / "d").write_text("d")
    refused = run("--output", "json", *words)
    assert (refused.code, refused.json["kind"]) == (4, "replacement")
    assert [refused.json[each] for each in ("added", "removed", "changed")] == [1, 1, 1]
    assert "1 object that this source did not bring: 'raw/a'" in refused.json["error"]
    code, asked = answered(b"n\n", *words)
    assert (code, "[y/N]" in asked) == (4, True)
    assert ok("cat", scene.uri("main", "raw/a")) == "correct"
    ran = run(*words, "--exclude", "a")
    assert ran.text.endswith("1 added, 0 removed, 0 changed\n")
    assert "kept 1 object there that this source did not bring" in ran.err
    code, asked = answered(b"y\n", *words)
    assert (code, "0 added, 1 removed, 1 changed" in asked) == (0, True)
    assert scene.paths("main") == ["raw/a", "raw/b", "raw/c", "raw/d"]
    root = ("import", main, "--from", str(tmp_path / "source"))
    assert "the prefix is empty" in failed(4, *root)
    assert said(*root, "--replace")["removed"] == 4
