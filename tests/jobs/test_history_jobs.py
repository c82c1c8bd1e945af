"""The history of paths, blame, rolled up differences and pictures: commands and their jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Scene, ok, said
from tests.jobs.running import job


def test_log_of_a_path_and_blame(scene: Scene) -> None:
    first = scene.commit("main", {"a/x": "1", "b": "1"})
    second = scene.commit("main", {"a/x": "22"})
    third = scene.commit("main", {"b": "22", "a/y": "1"})
    main = scene.uri("main")
    for words, commits in (
        (("--path", "a/x"), [second, first]),
        (("--prefix", "a/"), [third, second, first]),
        (("--prefix", "b", "--amount", "1"), [third]),
    ):
        assert job(0, "log", main, *words) == said("log", main, *words) == commits
    assert job(13, "log", main, "--path", "none")["kind"] == "object_not_found"
    assert job(2, "log", main, "--path", "a", "--prefix", "b")["kind"] == "invalid_input"
    assert job(2, "log", main, "--path", "k" * 1025)["kind"] == "invalid_key"
    assert "|" not in ok("log", main, "--path", "b")

    rows = job(0, "blame", main)
    assert rows == said("blame", main)
    assert [(each["path"], each["commit_id"]) for each in rows] == [
        ("a/x", second["id"]),
        ("a/y", third["id"]),
        ("b", third["id"]),
    ]
    assert rows[0] == {
        "path": "a/x",
        "commit_id": second["id"],
        "committer": second["committer"],
        "message": second["message"],
        "creation_date": second["creation_date"],
    }
    assert job(0, "blame", scene.uri("main~1", "a/")) == rows[:1]
    (line,) = ok("blame", scene.uri("main", "b")).splitlines()
    assert line.split()[0] == third["id"][:12]
    assert line.endswith("Z  b  tester: change")
    assert job(13, "blame", scene.uri("none"))["kind"] == "ref_not_found"


def test_rolled_up_differences(scene: Scene) -> None:
    scene.commit("main", {"a/x/1": "1", "a/x/2": "1", "b": "22"})
    scene.commit("main", {"a/x/1": "4444", "a/y/3": "333", "c": "1"})
    sides = (scene.uri("main~1"), scene.uri("main"))
    nothing = dict.fromkeys(["removed", "conflict"], 0)
    total = {"path": "", "added": 2, "changed": 1, "bytes_added": 8, "bytes_removed": 1, **nothing}
    assert job(0, "diff", *sides, "--summary") == said("diff", *sides, "--summary") == total
    assert ok("diff", *sides, "--summary") == "+2 ~1  +8 B -1 B\n"
    folders = job(0, "diff", *sides, "--by-folder")
    assert folders == said("diff", *sides, "--by-folder")
    assert [(each["path"], each["added"], each["bytes_added"]) for each in folders] == [
        ("a/", 1, 7),
        ("c", 1, 1),
    ]
    assert ok("diff", *sides, "--by-folder", "--depth", "2").splitlines() == [
        "a/x/  ~1  +4 B -1 B",
        "a/y/  +1  +3 B",
        "c  +1  +1 B",
    ]
    tree = job(0, "diff", *sides, "--tree", "--depth", "1")
    assert tree == said("diff", *sides, "--tree", "--depth", "1")
    assert tree == {**total, "children": [{**each, "children": []} for each in folders]}
    assert ok("diff", *sides, "--tree") == (
        ".  +2 ~1  +8 B -1 B\n"
        "|-- a/  +1 ~1  +7 B -1 B\n"
        "|   |-- x/  ~1  +4 B -1 B\n"
        "|   |   `-- 1  ~1  +4 B -1 B\n"
        "|   `-- y/  +1  +3 B\n"
        "|       `-- 3  +1  +3 B\n"
        "`-- c  +1  +1 B\n"
    )
    assert ok("diff", scene.uri("main"), "--tree") == ".  no difference\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--tree", "--summary"),
        ("--by-folder", "--tree"),
        ("--depth", "2"),
        ("--summary", "--depth", "2"),
        ("--three-dot", "--three-way"),
        ("--tree", "--depth", "101"),
        ("--summary", "--to", "nowhere"),
    ],
    ids=" ".join,
)
def test_what_no_difference_can_be_asked(scene: Scene, words: tuple[str, ...]) -> None:
    main = scene.uri("main")
    assert job(2, "diff", main, main, *words)["kind"] == "invalid_input"


def test_three_dots_need_two_refs(scene: Scene) -> None:
    dev, main = scene.diverge()
    assert job(2, "diff", main, "--three-dot", "--summary")["kind"] == "invalid_input"
    since = job(0, "diff", main, dev, "--three-dot", "--summary")
    assert since == said("diff", main, dev, "--three-dot", "--summary")
    assert since != job(0, "diff", main, dev, "--summary")


@pytest.mark.system
def test_pictures(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    main = scene.uri("main")
    assert job(2, "log", main, "--picture", str(tmp_path / "h.pdf"))["kind"] == "invalid_input"
    file = tmp_path / "h.svg"
    answer = {"picture": str(file), "commits": 2}
    assert job(0, "log", main, "--picture", str(file)) == answer
    drawn = file.read_bytes()
    assert said("log", main, "--picture", str(file)) == answer
    assert file.read_bytes() == drawn
    assert ok("log", main, "--picture", str(file)) == f"2 commits drawn in {file}\n"
