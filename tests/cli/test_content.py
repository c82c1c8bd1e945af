"""`diff --content` and `diff_texts`: changed lines of text objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import sparklake
from sparklake.errors import PurgedError
from sparklake.verbs.diffs.texts import MOST_BYTES, MOST_LINES
from tests.cli.running import Scene, failed, ok, run, said
from tests.cli.terminal import on_terminal


def put(scene: Scene, ref: str, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        ok("put", "-", scene.uri(ref, key), stdin=body)


def commit(scene: Scene, objects: dict[str, bytes]) -> None:
    put(scene, "main", objects)
    ok("commit", scene.uri("main"), "-m", "x")


def test_changed_added_and_removed_lines(scene: Scene) -> None:
    commit(scene, {"a": b"1\n2\n3\n", "gone": b"x\n", "same": b"s\n"})
    put(scene, "main", {"a": b"1\ntwo\n3\n", "new": b"n"})
    ok("rm", scene.uri("main", "gone"))
    sides = {"main@": "main@", "main": "main"}
    for words in ([scene.uri("main")], [scene.uri("main~1"), scene.uri("main")]):
        left, right = sides
        assert ok("diff", *words, "--content").splitlines() == [
            "~ changed         8 B  a",
            f"--- {left}/a",
            f"+++ {right}/a",
            *("@@ -1,3 +1,3 @@", " 1", "-2", "+two", " 3"),
            "- removed         2 B  gone",
            *(f"--- {left}/gone", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"),
            "+ added           1 B  new",
            *("--- /dev/null", f"+++ {right}/new", "@@ -0,0 +1 @@", "+n"),
            "\\ No newline at end of file",
        ]
        if len(words) == 1:
            ok("commit", scene.uri("main"), "-m", "y")
            sides = {"main~1": "", "main": ""}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b"a\n"),
        (b"a", b"a\n"),
        (b"a\n", b"a"),
        (b"a\nb", b"b\nb"),
        (b"\n\n", b"\n"),
        (b"a\r\nb\x0cc\xe2\x80\xa8d\n", b"a\r\nb\x0cc\n"),
        (b"".join(b"%d\n" % at for at in range(99)), b"".join(b"%d\n" % at for at in range(9, 99))),
    ],
)
def test_the_lines_are_a_patch(scene: Scene, tmp_path: Path, old: bytes, new: bytes) -> None:
    commit(scene, {"a": old})
    put(scene, "main", {"a": new})
    (document,) = said("diff", scene.uri("main"), "--content")
    assert (document["path"], document["type"], document["reason"]) == ("a", "changed", None)
    (tmp_path / "a").write_bytes(old)
    patch = "".join(f"{line}\n" for line in document["lines"]).encode()
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, check=True)
    assert (tmp_path / "a").read_bytes() == new


def test_what_is_no_text_has_a_reason(scene: Scene) -> None:
    commit(scene, {"binary": b"\0", "large": b"1", "long": b"1", "labels": b"1"})
    large, long = b"x" * (MOST_BYTES + 1), b"\n" * (MOST_LINES + 1)
    put(scene, "main", {"binary": b"1", "large": large, "long": long})
    ok("put", "-", scene.uri("main", "labels"), "--meta", "a=b", stdin=b"1")
    documents = said("diff", scene.uri("main"), "--content")
    assert {each["path"]: (each["reason"], each["lines"]) for each in documents} == {
        "binary": ("binary", []),
        "labels": ("same content", []),
        "large": ("too large", []),
        "long": ("too large", []),
    }
    assert ok("diff", scene.uri("main"), "--content").splitlines()[1] == "    binary"


def test_nothing_in_an_object_reaches_a_terminal_as_what_it_obeys(scene: Scene) -> None:
    commit(scene, {"a": b"1\n"})
    put(scene, "main", {"a": "\x1b[2J\t\x9b\u202e\r\n".encode() + b"\xff\n", "k\n+x": b"1\n"})
    lines = ok("diff", scene.uri("main"), "--content").splitlines()
    assert "+\\x1b[2J\t\\x9b\\u202e\\r" in lines
    assert "+\\xff" in lines
    assert "+++ main/k\\n+x" in lines


def test_the_changes_of_one_side(scene: Scene) -> None:
    scene.commit("main", {"a": "1\n", "b": "1\n"})
    dev = scene.branch("dev")
    scene.commit("main", {"a": "2\n"})
    scene.commit("dev", {"b": "2\n"})
    words = [scene.uri("main"), dev, "--content"]
    assert [each["path"] for each in said("diff", *words)] == ["a", "b"]
    (one,) = said("diff", *words, "--three-dot")
    assert one["lines"][-2:] == ["-1", "+2"]
    (one,) = said("diff", *words, "--prefix", "a")
    assert one["lines"][-2:] == ["-2", "+1"]


def test_options_that_do_not_fit(scene: Scene) -> None:
    main = scene.uri("main")
    for option in ("--tree", "--summary", "--by-folder", "--explain"):
        assert "--content" in failed(2, "diff", main, main, "--content", option)


def test_conflicts_of_a_three_way_diff_have_the_lines_of_both_sides(scene: Scene) -> None:
    dev, main = scene.diverge()
    removed, conflict = said("diff", main, dev, "--three-way", "--content")[::-1]
    if removed["type"] == "conflict":
        removed, conflict = conflict, removed
    assert (removed["path"], removed["lines"][-1]) == ("right", "\\ No newline at end of file")
    assert conflict["path"] == "both"
    texts = [each for each in conflict["lines"] if each[:2] in ("-b", "+m", "+d")]
    assert texts == ["-base", "+main", "-base", "+dev!"]
    heads = [each.partition("/")[0] for each in conflict["lines"] if each[:4] == "+++ "]
    assert heads == ["+++ main", "+++ dev"]
    assert "two refs" in failed(2, "diff", main, "--three-way", "--content")


def test_the_numbers_of_a_tree_have_colours_on_a_terminal(scene: Scene) -> None:
    scene.commit("main", {"a/b": "1"})
    scene.commit("main", {"a/c": "22", "a/b": None})
    words = ["diff", scene.uri("main~1"), scene.uri("main"), "--tree"]
    seen = on_terminal("--no-pager", *words)
    green, red = ("\x1b[32m+1\x1b[0m", "\x1b[31m-1\x1b[0m")
    assert f"a/  {green} {red}  \x1b[32m+2 B\x1b[0m \x1b[31m-1 B\x1b[0m" in seen
    assert "\x1b" not in ok(*words)


def test_a_purged_object_is_reported(scene: Scene, home: Path) -> None:
    commit(scene, {"a": b"secret\n"})
    commit(scene, {"a": b"none\n", "b": b"1\n"})
    ok("purge", "run", scene.uri(), "a", "--commit", "--yes", "-m", "x")
    assert run("diff", scene.uri("main~2"), scene.uri("main~1"), "--content").code == 10
    with sparklake.connect(home=home) as lake, pytest.raises(PurgedError):
        list(lake.repository(scene.name).diff_texts("main~2", "main~1"))
