"""`--once`, `--if-needed` and `--exist-ok`: what a repeated command prints, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Scene, ok, run, said


@pytest.fixture
def filled(scene: Scene, tmp_path: Path) -> Scene:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one").write_bytes(b"one")
    ok("put", str(tmp_path / "files" / "one"), scene.uri("main", "base/0"))
    ok("commit", scene.uri("main"), "-m", "base")
    ok("branch", "create", scene.uri("dev"), "--source", scene.uri("main"))
    ok("put", "-", scene.uri("dev", "dev"), stdin=b"dev")
    ok("commit", scene.uri("dev"), "-m", "on dev")
    return scene


COMMANDS = {
    "put": ["put", "FILES/one", "main/new"],
    "put -r": ["put", "-r", "FILES", "main/new"],
    "rm": ["rm", "main/base/0"],
    "mv": ["mv", "main/base/", "main/moved/"],
    "cp": ["cp", "main/base/", "main/copied/"],
    "restore": ["restore", "main", "--from", "dev", "--path", "dev"],
    "commit": ["commit", "main", "-m", "empty", "--allow-empty"],
    "merge": ["merge", "dev", "main"],
    "revert": ["revert", "main", "main"],
    "cherry-pick": ["cherry-pick", "main", "dev"],
    "rebase": ["rebase", "main", "--onto", "dev"],
    "reset": ["reset", "main", "--yes"],
    "hard-reset": ["hard-reset", "main", "dev"],
    "undo": ["op", "undo", "dev"],
    "import": ["import", "main/in/", "--from", "FILES"],
    "branch create": ["branch", "create", "new", "--source", "dev"],
    "tag create": ["tag", "create", "t", "dev"],
}


def words(scene: Scene, folder: Path, name: str) -> list[str]:
    command, *rest = COMMANDS[name]
    found = [command]
    for each in rest:
        ref, _, key = each.partition("/")
        if each.startswith("FILES"):
            found.append(str(folder / each.replace("FILES", "files")))
        elif ref in ("main", "dev", "new", "t") and found[-1] != "--path":
            found.append(scene.uri(ref, key) if key else scene.uri(ref))
        else:
            found.append(each)
    return [*found, "--once", name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_repeated_command_prints_the_first_result(
    filled: Scene, tmp_path: Path, name: str
) -> None:
    command = words(filled, tmp_path, name)
    first = said(*command)
    if name == "branch create":
        ok("branch", "delete", "--yes", filled.uri("new"))
    again = said(*command)
    if isinstance(first, list):
        assert again == [{**each, "repeated": True} for each in first]
    else:
        assert "repeated" not in first
        assert again == {**first, "repeated": True}
    ran = run(*command)
    assert ran.code == 0
    assert ran.err == "this ran before with the same key: nothing was changed now\n"


def test_stdin_is_compared(filled: Scene) -> None:
    command = ["put", "-", filled.uri("main", "new"), "--once", "a key"]
    ok(*command, stdin=b"one")
    assert json.loads(run("--output", "json", *command, stdin=b"one").out)["repeated"]
    ran = run("--output", "json", *command, stdin=b"two")
    assert (ran.code, ran.json["kind"]) == (2, "idempotency_key_reused")
    assert ok("cat", filled.uri("main", "new")) == "one"


def test_nothing_to_do_is_fine_if_only_a_needed_change_is_wanted(
    filled: Scene, tmp_path: Path
) -> None:
    main, dev = filled.uri("main"), filled.uri("dev")
    base = said("log", main)[0]
    assert run("commit", main, "-m", "m").code == 4
    assert said("commit", main, "-m", "m", "--if-needed") == {**base, "changed": False}
    merged = said("merge", dev, main, "--if-needed")
    assert merged["changed"] is True
    assert run("merge", dev, main).code == 4
    assert said("merge", dev, main, "--if-needed") == {**merged, "changed": False}
    ran = run("merge", dev, main, "--if-needed")
    assert (ran.code, ran.err) == (0, "there was nothing to do: nothing was changed\n")
    command = ["import", filled.uri("main", "in/"), "--from", str(tmp_path / "files")]
    made = said(*command, "--if-needed")
    assert run(*command).code == 4
    assert made["changed"] is True
    assert said(*command, "--if-needed") == {**made, "added": 0, "changed": False}
    assert said("cherry-pick", main, dev, "--if-needed") == []
    assert run("cherry-pick", main, dev).code == 4
    assert said("log", main)[0]["message"] == made["message"]


def test_a_cherry_pick_leaves_out_what_is_not_needed(filled: Scene) -> None:
    main, dev = filled.uri("main"), filled.uri("dev")
    ok("put", "-", filled.uri("dev", "more"), stdin=b"more")
    ok("commit", dev, "-m", "more on dev")
    ok("cherry-pick", main, f"{dev}~1")
    command = ["cherry-pick", main, f"{dev}~1", dev]
    assert run(*command).code == 4
    [made] = said(*command, "--if-needed")
    assert (made["message"], made["changed"]) == ("more on dev", True)
    assert said(*command, "--if-needed") == []


def test_a_repeat_tells_whether_the_first_run_changed_anything(filled: Scene) -> None:
    main, dev = filled.uri("main"), filled.uri("dev")
    acted = ["merge", dev, main, "--if-needed", "--once", "one"]
    first = said(*acted)
    idle = ["merge", dev, main, "--if-needed", "--once", "two"]
    assert said(*idle) == {**first, "changed": False}
    ok("put", "-", filled.uri("dev", "more"), stdin=b"more")
    ok("commit", dev, "-m", "more on dev")
    assert first["changed"] is True
    assert said(*acted) == {**first, "repeated": True}
    assert said(*idle) == {**first, "changed": False, "repeated": True}


def test_an_existing_branch_or_tag_is_fine_on_request(filled: Scene) -> None:
    main, dev = filled.uri("main"), filled.uri("dev")
    branch = ["branch", "create", filled.uri("new"), "--source", main, "--expires", "7d"]
    made = said(*branch, "--exist-ok", "--once", "one")
    assert made["changed"] is True
    assert made["expires"] is not None
    ok("put", "-", filled.uri("new", "k"), stdin=b"1")
    assert run(*branch).code != 0
    assert said(*branch, "--exist-ok") == {**made, "dirty": True, "changed": False}
    assert said(*branch, "--exist-ok", "--once", "one") == {**made, "repeated": True}
    idle = said(*branch, "--exist-ok", "--once", "two")
    assert idle["changed"] is False
    assert said(*branch, "--exist-ok", "--once", "two")["changed"] is False
    tag = ["tag", "create", filled.uri("t"), main]
    made = said(*tag, "--exist-ok")
    assert made["changed"] is True
    assert said(*tag, "--exist-ok") == {**made, "changed": False}
    ran = run("--output", "json", "tag", "create", filled.uri("t"), dev, "--exist-ok")
    assert ran.json["kind"] == "already_exists"
