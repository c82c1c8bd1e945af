"""Every command of the grammar, in text and in JSON."""

from __future__ import annotations

import hashlib
import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparklake.cli.main import option_names
from sparklake.cli.options import without_git_names
from sparklake.errors import InvalidInputError
from tests.cli.running import Scene, failed, ok, run, said

COMMIT_KEYS = [
    "id",
    "parents",
    "committer",
    "message",
    "creation_date",
    "meta_range_id",
    "metadata",
    "generation",
]


def test_a_repository_is_created_listed_and_deleted(tmp_path: Path, dsn: str) -> None:
    lake = ("--dsn", dsn)
    assert said(*lake, "repo", "list") == []
    empty = run(*lake, "repo", "list")
    assert (empty.code, "sparklake repo create" in empty.err) == (0, True)
    made = said(
        *lake, "repo", "create", "lakefs://one", str(tmp_path / "1"), "--default-branch", "trunk"
    )
    assert made["name"] == "one"
    assert made["storage_namespace"] == f"file://{tmp_path / '1'}"
    assert made["default_branch"] == "trunk"
    assert abs(made["creation_date"] - time.time()) < 60
    text = ok(*lake, "repo", "create", "lakefs://two", str(tmp_path / "2"), "--range-records", "7")
    assert text == f"lakefs://two is in file://{tmp_path / '2'}, with the branch main\n"
    listing = said(*lake, "repo", "list")
    assert [each["name"] for each in listing] == ["one", "two"]
    assert listing[1]["range_records"] == 7
    lines = ok(*lake, "repo", "list").splitlines()
    assert lines[0].split() == [
        *("repository", "storage", "namespace"),
        *("default", "branch", "created"),
    ]
    assert lines[1].split()[:3] == ["lakefs://one", f"file://{tmp_path / '1'}", "trunk"]
    (first,) = said(*lake, "log", "lakefs://one/trunk")
    assert (first["parents"], first["generation"]) == ([], 1)
    assert said(*lake, "repo", "delete", "--yes", "lakefs://one")["deleted"] is True
    assert "the files in" in ok(*lake, "repo", "delete", "--yes", "lakefs://two")
    assert said(*lake, "repo", "list") == []


def test_branches(scene: Scene) -> None:
    head = scene.commit("main", {"a": "1"})
    made = said("branch", "create", scene.uri("dev:joe-bugfix-1234"), "--source", scene.uri("main"))
    assert made == {
        "name": "dev:joe-bugfix-1234",
        "commit_id": head["id"],
        "dirty": False,
        "hidden": False,
        "expires": None,
        "expired": False,
        "protected": [],
    }
    text = ok("branch", "create", scene.uri("old"), "--source", scene.uri("main~1"))
    assert text.startswith(f"{scene.uri('old')} is at ")
    scene.put("dev:joe-bugfix-1234", {"b": "2"})
    listing = said("branch", "list", scene.uri())
    assert [(each["name"], each["dirty"]) for each in listing] == [
        ("dev:joe-bugfix-1234", True),
        ("main", False),
        ("old", False),
    ]
    assert listing[1]["head"] == head
    lines = ok("branch", "list", scene.uri()).splitlines()
    name, commit, _, _, *words = lines[1].split()
    assert (name, commit) == ("dev:joe-bugfix-1234", head["id"][:12])
    assert words == ["tester", "change", "uncommitted", "changes"]
    gone = said("branch", "delete", "--yes", scene.uri("old"))
    assert (gone["name"], gone["deleted"]) == ("old", True)
    text = ok(*("branch", "delete", "--yes", "--discard-staged", scene.uri("dev:joe-bugfix-1234")))
    assert text.startswith(f"{scene.uri('dev:joe-bugfix-1234')} is deleted; ")
    assert [each["name"] for each in said("branch", "list", scene.uri())] == ["main"]


def test_a_renamed_branch_keeps_its_staged_changes(scene: Scene) -> None:
    head = scene.branch("dev") and said("log", scene.uri("dev"))[0]
    dev, team = scene.uri("dev"), scene.uri("team")
    scene.put("dev", {"b": "2"})
    main = scene.uri("main")
    assert "default branch" in failed(11, "branch", "rename", main, team)
    assert "already exists" in failed(14, "branch", "rename", dev, main)
    assert "has no branch 'team'" in failed(13, "branch", "rename", team, scene.uri("other"))
    assert failed(2, "branch", "rename", dev, "lakefs://other/x")
    words = ("branch", "rename", dev, team, "--once", "k")
    assert ok(*words) == f"{dev} is now {team}, at {head['id'][:12]}\n"
    assert said(*words)["name"] == "team"
    assert [each["name"] for each in said("branch", "list", scene.uri())] == ["main", "team"]
    assert ok("cat", f"{team}/b") == "2"
    assert said("diff", team)[0]["path"] == "b"


def test_tags(scene: Scene) -> None:
    head = scene.commit("main", {"a": "1"})
    assert said("tag", "list", scene.uri()) == []
    note = ("-m", "as trained\n\non May data", "--meta", "model=churn-7", "--meta", "run=12")
    made = said("tag", "create", scene.uri("v2.3"), scene.uri("main"), *note)
    assert made.pop("creation_date") >= head["creation_date"]
    assert made == {
        "name": "v2.3",
        "commit_id": head["id"],
        "who": "tester",
        "message": "as trained\n\non May data",
        "metadata": {"model": "churn-7", "run": "12"},
    }
    assert "a tag's message" in failed(
        2, "tag", "create", scene.uri("x"), scene.uri("main"), "-m", "\0"
    )
    text = ok("tag", "create", scene.uri("dev:jane-before-v2.3-merge"), scene.uri("v2.3^"))
    assert "dev:jane-before-v2.3-merge is " in text
    assert [each["name"] for each in said("tag", "list", scene.uri())] == [
        "dev:jane-before-v2.3-merge",
        "v2.3",
    ]
    name, commit, _, _, *words = ok("tag", "list", scene.uri()).splitlines()[2].split()
    assert (name, commit) == ("v2.3", head["id"][:12])
    assert words == ["tester", "as", "trained", "model=churn-7,", "run=12"]
    assert said("tag", "delete", "--yes", scene.uri("v2.3")) == {"name": "v2.3", "deleted": True}
    assert ok("tag", "delete", "--yes", scene.uri("dev:jane-before-v2.3-merge")).endswith(
        "is deleted\n"
    )
    assert said("tag", "list", scene.uri()) == []


def test_an_import_is_a_commit(scene: Scene, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a.csv").write_text("1")
    (source / "sub" / "b c%20.csv").write_text("22")
    made = said(
        *("import", scene.uri("main", "raw/"), "--from", str(source), "-m", "first load"),
        *("--meta", "ticket=1234", "--committer", "joe"),
    )
    counts = ("added", "removed", "changed", "retained")
    assert list(made) == [*COMMIT_KEYS, "objects", *counts, "counts", "errors", "errors_to"]
    assert [made[each] for each in counts] == [2, 0, 0, 0]
    assert (made["objects"], made["counts"], made["errors"], made["errors_to"]) == (2, {}, [], None)
    assert (made["message"], made["committer"]) == ("first load", "joe")
    assert made["metadata"] == {"ticket": "1234"}
    assert scene.paths("main") == ["raw/a.csv", "raw/sub/b c%20.csv"]
    found = said("stat", scene.uri("main", "raw/sub/b c%20.csv"))
    assert found["address"] == f"file://{source}/sub/b c%20.csv"
    (source / "a.csv").unlink()
    text = ok("import", scene.uri("main", "raw"), "--from", str(source))
    assert text.startswith("[main ")
    assert text.endswith("\n    0 added, 1 removed, 0 changed\n")
    assert scene.paths("main") == ["raw/sub/b c%20.csv"]
    assert "already has all of these" in failed(
        4, "import", scene.uri("main", "raw/"), "--from", str(source)
    )


def test_an_import_beside_what_is_there_without_what_cannot_be(
    scene: Scene, tmp_path: Path
) -> None:
    source, errors = tmp_path / "source", tmp_path / "errors"
    (source / "one").mkdir(parents=True)
    (source / "one" / "a").write_text("1")
    (source / ("k" * 200) / ("k" * 200)).mkdir(parents=True)
    (source / ("k" * 200) / ("k" * 200) / "b").write_text("22")
    scene.commit("main", {"raw/kept": "1"})
    # With such a prefix, the path of one of them is longer than a key may be.
    prefix = "raw/" + "/".join(["p" * 200] * 4) + "/"
    words = ("import", scene.uri("main", prefix), "--from", str(source))
    head = said("log", scene.uri("main"))[0]["id"]
    refused = run("--output", "json", *words, "--errors-to", str(errors / "refused"))
    assert refused.code == 2
    assert refused.json["kind"] == "import_errors"
    assert refused.json["counts"] == {"invalid_path": 1}
    assert refused.json["errors"][0]["size"] == 2
    assert said("log", scene.uri("main"))[0]["id"] == head
    made = said(*words, "--skip-errors", "--errors-to", str(errors / "skipped"))
    assert (made["objects"], made["counts"]) == (1, {"invalid_path": 1})
    assert made["errors"] == refused.json["errors"]
    for place, document in (("refused", refused.json), ("skipped", made)):
        assert document["errors_to"] == f"file://{errors / place}"
        assert pq.read_table(errors / place).to_pylist() == made["errors"]
    assert scene.paths("main") == ["raw/kept", f"{prefix}one/a"]
    (source / "one" / "c").write_text("1")
    assert "skipped 1 row: 1 invalid_path" in run(*words, "--skip-errors").err
    assert scene.paths("main") == ["raw/kept", f"{prefix}one/a", f"{prefix}one/c"]


def test_put_stat_cat_and_rm(scene: Scene, tmp_path: Path) -> None:
    body = bytes(range(256))
    file = tmp_path / "file.bin"
    file.write_bytes(body)
    uri = scene.uri("main", "a/b?c#d e%.bin")
    staged = said("put", str(file), uri, "--content-type", "x/y", "--meta", "k=v=w")
    assert staged["path"] == "a/b?c#d e%.bin"
    assert staged["size"] == 256
    assert staged["metadata"] == {"k": "v=w"}
    found = said("stat", uri)
    assert found == staged
    assert found["type"] == "object"
    assert found["checksum"] == hashlib.md5(body, usedforsecurity=False).hexdigest()
    assert found["content_type"] == "x/y"
    assert abs(found["mtime"] - time.time()) < 60
    assert run("cat", uri).out == body
    assert run("--output", "json", "cat", uri).out == body
    lines = dict(line.split(None, 1) for line in ok("stat", uri).splitlines())
    assert (lines["path"], lines["size"]) == ("a/b?c#d e%.bin", "256 bytes")
    assert ok("put", "-", scene.uri("main", "in"), stdin=b"\0in") == (
        f"staged {scene.uri('main', 'in')} (3 B)\n"
    )
    assert run("cat", scene.uri("main", "in")).out == b"\0in"
    assert said("rm", uri) == {"path": "a/b?c#d e%.bin", "removed": 1}
    assert ok("rm", scene.uri("main", "in")) == (
        f"staged the removal of 1 object at {scene.uri('main', 'in')}\n"
    )
    assert scene.paths("main") == []


def test_mv_and_cp(scene: Scene) -> None:
    scene.put("main", dict.fromkeys(["a", "a/1", "a/b/2", "ab/3"], "x"))
    main = scene.uri("main", "")
    assert said("mv", f"{main}a/", f"{main}c/") == {"source": "a/", "path": "c/", "moved": 2}
    assert scene.paths("main") == ["a", "ab/3", "c/1", "c/b/2"]
    assert ok("mv", f"{main}a", f"{main}b") == f"staged the move of 1 object to {main}b\n"
    assert said("cp", f"{main}c", f"{main}ab/", "-r")["copied"] == 2
    assert scene.paths("main") == ["ab/3", "ab/c/1", "ab/c/b/2", "b", "c/1", "c/b/2"]
    assert "'c/1' already exists" in failed(14, "cp", f"{main}ab/c/", f"{main}c/")
    assert ok("cp", "--force", f"{main}ab/c/", f"{main}c/") == f"staged 2 objects at {main}c/\n"
    assert "one contains the other" in failed(2, "mv", f"{main}c/", f"{main}c/d/")
    assert "are on different branches" in failed(2, "mv", scene.uri("v0", "c/"), f"{main}d/")
    assert "different repositories" in failed(2, "cp", "lakefs://other/main/c/", f"{main}d/")


def test_rm_takes_a_folder_and_not_its_namesakes(scene: Scene) -> None:
    paths = ["a", "a/1", "a/b/2", "a-b", "ab/3", "c/4"]
    scene.put("main", dict.fromkeys(paths, "x"))
    assert said("rm", "-r", scene.uri("main", "a")) == {"path": "a", "removed": 3}
    assert scene.paths("main") == ["a-b", "ab/3", "c/4"]
    scene.put("main", {"c": "x"})
    assert said("rm", "--recursive", scene.uri("main", "c/")) == {"path": "c/", "removed": 1}
    assert scene.paths("main") == ["a-b", "ab/3", "c"]
    assert said("rm", "-r", scene.uri("main", "c")) == {"path": "c", "removed": 1}
    assert "3" not in ok("rm", "-r", scene.uri("main", "")).split("lakefs://")[0]
    assert scene.paths("main") == []
    for folder in ("nothing", "nothing/"):
        assert "nothing" in failed(13, "rm", "-r", scene.uri("main", folder))


def test_ls_shows_one_level_or_all(scene: Scene) -> None:
    paths = ["a", "a-b", "a/1", "a/b/2", "a/b/3", "b//4", "日本/é"]
    scene.commit("main", dict.fromkeys(paths, "x"))
    scene.put("main", {"z": "staged"})
    level = said("ls", scene.uri("main", ""))
    assert [(each["type"], each["path"]) for each in level] == [
        ("object", "a"),
        ("object", "a-b"),
        ("prefix", "a/"),
        ("prefix", "b/"),
        ("object", "z"),
        ("prefix", "日本/"),
    ]
    assert level[2] == {"type": "prefix", "path": "a/"}
    assert set(level[0]) == {
        *("type", "path", "size", "checksum", "mtime"),
        *("address", "metadata", "content_type"),
    }
    assert said("ls", scene.uri("main")) == level
    assert [each["path"] for each in said("ls", scene.uri("main", "a/"))] == ["a/1", "a/b/"]
    assert [each["path"] for each in said("ls", scene.uri("main", "b/"))] == ["b//"]
    assert [each["path"] for each in said("ls", scene.uri("main", "a"))] == ["a", "a-b", "a/"]
    assert scene.paths("main", "a/b") == ["a/b/2", "a/b/3"]
    assert scene.paths("main@") == paths
    assert "no object at 'nothing/'" in failed(13, "ls", scene.uri("main", "nothing/"))
    text = ok("ls", scene.uri("main", "")).splitlines()
    assert text[2].strip() == "a/"
    assert text[0].split()[0:2] == ["1", "B"]
    assert ok("ls", "-r", scene.uri("main", "日本/")).endswith("日本/é\n")


def test_what_is_staged_is_listed_alone(scene: Scene) -> None:
    scene.commit("main", {"a/1": "1", "b": "2"})
    scene.put("main", {"a/new": "1", "b": None})
    assert scene.paths("main$") == ["a/new"]
    assert said("ls", scene.uri("main$")) == [{"type": "prefix", "path": "a/"}]
    assert said("stat", scene.uri("main$", "a/new"))["size"] == 1
    assert run("cat", scene.uri("main$", "b")).code == 13


def test_ls_shows_each_folder_once(scene: Scene) -> None:
    paths = [f"{folder}/{at}" for folder in "abc" for at in range(9)]
    scene.commit("main", dict.fromkeys([*paths, "b0", "d"], "x"))
    assert [each["path"] for each in said("ls", scene.uri("main"))] == [
        *("a/", "b/", "b0", "c/", "d")
    ]


def test_commit_says_all_of_a_commit(scene: Scene) -> None:
    (first,) = said("log", scene.uri("main"))
    scene.put("main", {"a": "1"})
    made = said(
        *("commit", scene.uri("main"), "-m", "what\n\nand why", "--committer", "joe"),
        *("--meta", "a=1", "--meta", "b=x=y"),
    )
    assert list(made) == COMMIT_KEYS
    assert made["parents"] == [first["id"]]
    assert made["message"] == "what\n\nand why"
    assert made["committer"] == "joe"
    assert made["metadata"] == {"a": "1", "b": "x=y"}
    assert made["generation"] == 2
    assert len(made["meta_range_id"]) == 64
    assert abs(made["creation_date"] - time.time()) < 60
    empty = said("commit", scene.uri("main"), "-m", "empty", "--allow-empty")
    assert (empty["meta_range_id"], empty["committer"]) == (made["meta_range_id"], "tester")
    scene.put("main", {"a": "2"})
    text = ok("commit", scene.uri("main"), "--message", "third")
    assert text.startswith("[main ")
    assert text.endswith("] third\n")


def test_reset_drops_what_is_staged(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    scene.put("main", {"b": "2", "a": None})
    assert said("reset", "--yes", scene.uri("main")) == {
        "name": "main",
        "dirty": False,
        "dropped": 2,
    }
    assert scene.paths("main") == ["a"]
    scene.put("main", {"b": "2"})
    text = f"dropped 1 staged change: {scene.uri('main')} has none now\n"
    assert ok("reset", "--yes", scene.uri("main")) == text
    assert "nothing to commit" in failed(4, "commit", scene.uri("main"), "-m", "x")


def test_reset_drops_a_part_of_what_is_staged(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "d/x": "1"})
    scene.put("main", {"a": "2", "d/x": None, "d/y": "2", "e": "2"})
    main = scene.uri("main")
    document = said("reset", "--yes", main, "--prefix", "d/")
    assert document == {"name": "main", "dirty": True, "dropped": 2}
    assert scene.paths("main") == ["a", "d/x", "e"]
    text = ok("reset", "--yes", main, "--object", "a")
    assert text == f"dropped 1 staged change: {scene.uri('main', 'a')} has none now\n"
    assert ok("cat", scene.uri("main", "a")) == "1"
    assert "choose one of" in failed(2, "reset", "--yes", main, "--object", "a", "--prefix", "a")
    document = said("reset", "--yes", main, "--object", "e")
    assert document == {"name": "main", "dirty": False, "dropped": 1}
    assert scene.paths("main") == ["a", "d/x"]


def test_diff_of_what_is_staged_and_between_refs(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "b": "1", "d/c": "1"})
    scene.put("main", {"a": "22", "b": None, "d/new": "333", "d/c": "1"})
    expected = [
        {"type": "changed", "path": "a", "size": 2},
        {"type": "removed", "path": "b", "size": 1},
        {"type": "added", "path": "d/new", "size": 3},
    ]
    rows = said("diff", scene.uri("main"))
    assert [{name: row[name] for name in ("type", "path", "size")} for row in rows] == expected
    assert said("diff", scene.uri("main"), "--prefix", "d/") == rows[2:]
    ran = run("diff", scene.uri("main"))
    assert [line.split() for line in ran.text.splitlines()] == [
        ["~", "changed", "2", "B", "a"],
        ["-", "removed", "1", "B", "b"],
        ["+", "added", "3", "B", "d/new"],
    ]
    assert ran.err == "1 added, 1 removed, 1 changed\n"
    said("commit", scene.uri("main"), "-m", "change")
    assert said("diff", scene.uri("main~1"), scene.uri("main")) == rows
    assert said("diff", scene.uri("main~1"), scene.uri("main"), "--prefix", "d/") == rows[2:]
    assert said("diff", scene.uri("main"), scene.uri("main")) == []
    assert run("diff", scene.uri("main")).err.startswith("no difference\n")


def test_a_three_way_diff_shows_what_a_merge_would_do(scene: Scene) -> None:
    dev, main = scene.diverge()
    rows = said("diff", "--three-way", main, dev)
    assert [(row["type"], row["path"]) for row in rows] == [
        ("conflict", "both"),
        ("removed", "right"),
    ]
    conflict, removed = rows
    assert (removed["base"], removed["source"], removed["dest"]["size"]) == (None, None, 1)
    lines = ok("diff", main, dev, "--three-way").splitlines()
    assert lines[0].startswith("! conflict")
    for side, line in zip(("base", "source", "dest"), lines[1:4], strict=True):
        assert line.split()[:3] == [side, "4", "B"]
        assert line.endswith(conflict[side]["checksum"][:8])
    assert lines[4].startswith("- removed")
    assert run("diff", main, dev, "--three-way").err == "1 removed, 1 conflict\n"
    scene.commit("main", {"all": "1"})
    scene.commit("dev", {"all": "22"})
    assert run("diff", main, dev, "--three-way").err == "1 removed, 2 conflicts\n"


def assert_shown(text: str, conflict: dict[str, Any]) -> None:
    """Check the text about a conflict over `both` against its JSON."""
    header, *lines = text.splitlines()
    assert header.split() == ["conflict", "side", "size", "time", "checksum", "author", "commit"]
    for side, line in zip(("base", "source", "dest"), lines, strict=True):
        found, commit = conflict[side], conflict.get(f"{side}_commit")
        time = f"{datetime.fromtimestamp(found['mtime'], timezone.utc):%Y-%m-%d %H:%M:%SZ}"
        made = [] if commit is None else [commit["committer"], commit["id"][:12]]
        shown = [side, "4", "B", *time.split(), found["checksum"][:8], *made]
        assert line.split() == (["both", *shown] if side == "base" else shown)
        assert found["size"] == 4


def test_a_merge_with_conflicts_lists_them_and_writes_nothing(scene: Scene) -> None:
    dev, main = scene.diverge()
    before = said("log", main)
    ran = run("merge", dev, main, "--output", "json")
    assert (ran.code, ran.err) == (3, "")
    assert ran.json["kind"] == "merge_conflict"
    assert ran.json["count"] == 1
    (conflict,) = ran.json["conflicts"]
    assert (conflict["type"], conflict["path"], conflict["size"]) == ("conflict", "both", 4)
    names = ["source_commit", "dest_commit"]
    heads = [said("log", uri)[0] for uri in (dev, main)]
    assert [conflict[name]["id"] for name in names] == [each["id"] for each in heads]
    assert [*conflict["source_commit"]] == ["id", "committer", "message", "creation_date"]
    assert "both" in ran.json["error"]
    text = run("merge", dev, main)
    assert text.code == 3
    assert text.err.startswith("error: ")
    assert_shown(text.text, conflict)
    assert said("log", main) == before


def test_rules_decide_a_merge_and_a_cherry_pick(scene: Scene) -> None:
    dev, main = scene.diverge()
    assert run("merge", dev, main, "--rule", "lef*=source-wins").code == 3
    (picked,) = said("cherry-pick", main, dev, "--rule", "*=keep-both", "--rule", "both=none")
    assert picked["parents"] == [said("log", main)[1]["id"]]
    assert "both.source" in scene.paths("main")
    made = said("merge", dev, main, "--rule", "bo?h=keep-both", "--strategy", "dest-wins")
    assert made["metadata"][".lakefs.merge.strategy"] == "bo?h=keep-both; else dest-wins"
    ok("revert", main, main, "--parent-number", "1", "--allow-empty", "--rule", "**=dest-wins")


def test_a_strategy_that_fails_is_7(scene: Scene) -> None:
    dev, main = scene.diverge()
    before = said("log", main)
    failed = run("merge", dev, main, "--strategy", "tests.support.strategies:failing")
    assert failed.code == 7
    assert "'tests.support.strategies:failing', called for 'both', failed" in failed.err
    assert said("log", main) == before


def test_a_merge_with_a_strategy_is_a_commit_of_two_parents(scene: Scene) -> None:
    dev, main = scene.diverge()
    (theirs, *_), (ours, *_) = said("log", dev), said("log", main)
    made = said(
        *("merge", dev, main, "--strategy", "source-wins", "-m", "ours now"),
        *("--meta", "k=v", "--committer", "jane"),
    )
    assert made["parents"] == [ours["id"], theirs["id"]]
    assert (made["message"], made["committer"]) == ("ours now", "jane")
    assert made["metadata"]["k"] == "v"
    assert ok("cat", scene.uri("main", "both")) == "dev!"
    assert ok("cat", scene.uri("main", "left")) == "2"
    assert scene.paths("main") == ["both", "left"]
    assert said("merge-base", dev, main)["id"] == theirs["id"]
    scene.commit("dev", {"both": "again"})
    scene.commit("main", {"both": "never"})
    assert ok("merge", dev, main, "--strategy", "dest-wins").startswith("[main ")
    assert ok("cat", scene.uri("main", "both")) == "never"


def test_merge_base(scene: Scene) -> None:
    dev, main = scene.diverge()
    base = said("merge-base", main, dev)
    assert list(base) == COMMIT_KEYS
    assert base["id"] == said("log", scene.uri("main~1"))[0]["id"]
    first, second = ok("merge-base", dev, main).splitlines()
    assert first == f"{base['id'][:12]} change"
    assert second.strip().startswith("tester, ")


def test_all_merge_bases(scene: Scene) -> None:
    dev, main = scene.diverge()
    tips = [said("log", ref)[0] for ref in (main, dev)]
    for name, source in (("x", "dev"), ("y", "main")):
        other = scene.branch(name, "main" if source == "dev" else "dev")
        ok("merge", scene.uri(source), other, "--strategy", "source-wins")
    x, y = scene.uri("x"), scene.uri("y")
    bases = said("merge-base", "--all", x, y)
    assert bases == sorted(tips, key=lambda each: (-each["generation"], each["id"]))
    assert said("merge-base", x, y) == bases[0]
    assert said("merge-base", x, main, "--all") == [tips[0]]
    lines = ok("merge-base", x, y, "--all").splitlines()
    assert [line[:12] for line in lines[::2]] == [each["id"][:12] for each in bases]


def test_log_of_some_commits(scene: Scene) -> None:
    dev, main = scene.diverge()
    ok("merge", dev, main, "--strategy", "dest-wins")
    merged, *others = said("log", main)
    for words, expected in (
        (["--no-merges"], others),
        (["--first-parent"], [merged, *said("log", scene.uri("main~1"))]),
        (["--after", "main"], others),
        (["--after", merged["id"][:12], "--amount", "1"], others[:1]),
        (["--stop-at", others[1]["id"]], [merged, *others[:2]]),
        (["--since", "2020-01-01"], [merged, *others]),
        (["--since", "2100-01-01"], []),
        (["--until", "2020-01-01T00:00:00Z"], []),
        (["--until", "2100-01-01 12:30+02:00"], [merged, *others]),
        (["--author", "nobody"], []),
        (["--author", "TESTER", "--grep", "merge"], [merged]),
        (["--meta", ".sparklake.merge.strategy"], []),
    ):
        assert said("log", main, *words) == expected, words
        nodes = [line for line in ok("log", main, *words).splitlines() if "*" in line]
        shown = [line.replace("|", " ").replace("*", " ").split()[0] for line in nodes]
        assert shown == [each["id"][:12] for each in expected], words
    straight = ok("log", main, "--first-parent").splitlines()
    assert {line[:3] for line in straight} == {"*  ", "|  ", "   "}
    assert {line[:3] for line in ok("log", main, "--no-merges").splitlines()} == {"*  ", "   "}


def test_show(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "b": "1", "c": "1"})
    scene.put("main", {"a": "22", "b": None, "new": "1", "newer": "1"})
    made = said("commit", scene.uri("main"), "-m", "subject\n\nthe rest", "--meta", "ticket=12")
    shown = said("show", scene.uri("main"))
    assert shown == {**made, "changes": {"added": 2, "removed": 1, "changed": 1}}
    lines = ok("show", scene.uri("main")).splitlines()
    assert [line.split()[0] for line in lines[:6]] == [
        *("commit", "parents", "committer", "date", "tree", "meta")
    ]
    assert lines[0] == f"commit        {made['id']}"
    assert lines[1] == f"parents       {made['parents'][0][:12]}"
    assert lines[5:] == [
        "meta ticket   12",
        "changes       2 added, 1 removed, 1 changed",
        "message       subject",
        "",
        "              the rest",
    ]
    first = ok("show", scene.uri("main~2")).splitlines()
    assert "parents       none" in first
    assert "changes       0 added, 0 removed, 0 changed" in first


def test_log(scene: Scene) -> None:
    dev, main = scene.diverge()
    merged = said("merge", dev, main, "--strategy", "dest-wins")
    ok("tag", "create", scene.uri("v1"), main)
    commits = said("log", main)
    assert [list(each) for each in commits] == [COMMIT_KEYS] * 5
    assert commits[0] == merged
    assert commits[-1]["parents"] == []
    assert said("log", main, "--amount", "2") == commits[:2]
    lines = ok("log", main).splitlines()
    assert lines[0] == f"*  {merged['id'][:12]} (main, tag: v1) Merge 'dev' into 'main'"
    assert lines[1].startswith("|  tester, ")
    assert lines[2] == "|  .lakefs.merge.strategy=dest-wins"
    assert lines[3] == "|-\\"
    assert lines[-1].startswith("   2")
    assert ok("log", main, "--amount", "1").splitlines()[0] == lines[0]


def test_a_revert_undoes_commits(scene: Scene) -> None:
    base = scene.commit("main", {"a": "1", "b": "1"})
    scene.commit("main", {"a": "2"}, "bad")
    scene.commit("main", {"b": "2"}, "worse")
    main = scene.uri("main")
    one, two = said("revert", main, main, scene.uri("main~1"), "--meta", "k=v")
    assert list(one) == COMMIT_KEYS
    assert one["message"].startswith("Revert worse\n")
    assert (two["parents"], two["metadata"]) == ([one["id"]], {"k": "v"})
    assert two["meta_range_id"] == base["meta_range_id"]
    first, second = ok("revert", main, main, scene.uri("main~1")).splitlines()
    assert first.startswith("[main ")
    assert first.endswith("] Revert Revert bad")
    assert second.endswith("] Revert Revert worse")
    assert ok("cat", scene.uri("main", "a")) == "2"


def test_a_cherry_pick_with_conflicts_lists_them(scene: Scene) -> None:
    dev, main = scene.diverge()
    before = said("log", main)
    ran = run("cherry-pick", main, dev, "--output", "json")
    assert (ran.code, ran.err, ran.json["kind"], ran.json["count"]) == (3, "", "merge_conflict", 1)
    (conflict,) = ran.json["conflicts"]
    text = run("cherry-pick", main, dev)
    assert (text.code, text.err.startswith("error: cannot cherry-pick ")) == (3, True)
    assert_shown(text.text, conflict)
    assert said("log", main) == before
    (made,) = said("cherry-pick", main, dev, "--strategy", "source-wins", "--committer", "jane")
    theirs = said("log", dev)[0]
    assert made["metadata"] == {
        "cherry-pick-origin": theirs["id"],
        "cherry-pick-committer": theirs["committer"],
    }
    assert (made["committer"], made["message"]) == ("jane", theirs["message"])
    assert ok("cat", scene.uri("main", "both")) == "dev!"


def test_a_merge_is_undone_as_seen_from_a_parent(scene: Scene) -> None:
    dev, main = scene.diverge()
    ok("merge", dev, main, "--strategy", "source-wins")
    assert "by its number (--parent-number). 1 is" in failed(2, "revert", main, main)
    (made,) = said("revert", main, main, "--parent-number", "1")
    assert made["meta_range_id"] == said("log", scene.uri("main~2"))[0]["meta_range_id"]
    (made,) = said("cherry-pick", main, scene.uri("main~1"), "--parent-number", "1")
    assert scene.paths("main") == ["both", "left"]


def test_rebase(scene: Scene) -> None:
    dev, main = scene.diverge()
    assert "cannot rebase" in failed(3, "rebase", dev, "--onto", main)
    head = said("log", main)[0]
    done = said("rebase", dev, "--onto", main, "--strategy", "source-wins")
    assert (done["name"], done["dirty"], done["commits"][-1]) == ("dev", False, done["commit_id"])
    assert head["id"] in {each["id"] for each in said("log", dev)}
    assert "nothing to rebase" in failed(4, "rebase", dev, "--onto", main)
    text = ok("rebase", main, "--onto", dev)
    assert text == f"{main} is at {done['commit_id'][:12]}, 0 commits replayed\n"


def test_a_hard_reset_moves_a_branch(scene: Scene) -> None:
    first = scene.commit("main", {"a": "1"})
    second = scene.commit("main", {"a": "2"})
    main, back = scene.uri("main"), scene.uri("main~1")
    at = said("branch", "set", scene.uri("main"), "--never")
    assert "is at" in failed(5, "hard-reset", main, back, "--expect", back)
    assert said("hard-reset", main, back, "--expect", main) == {**at, "commit_id": first["id"]}
    scene.put("main", {"b": "1"})
    assert "uncommitted" in failed(4, "hard-reset", main, scene.uri(second["id"]))
    text = ok("hard-reset", main, scene.uri(second["id"]), "--force", "--yes")
    undo = f"`sparklake op undo {main}` moves it back"
    assert text == f"{main} is at {second['id'][:12]}; {undo}\n"
    assert scene.paths("main") == ["a"]


def test_the_log_of_moves_and_its_undoing(scene: Scene) -> None:
    first = scene.commit("main", {"a": "1"})
    second = scene.commit("main", {"a": "2"})
    dev, main = scene.branch("dev"), scene.uri("main")
    rows = said("op", "log", scene.uri())
    assert [(each["verb"], each["ref"]) for each in rows] == [
        ("create-branch", "dev"),
        ("commit", "main"),
        ("commit", "main"),
        ("create-repository", "main"),
    ]
    assert list(rows[0]) == ["sequence", "date", "who", "verb", "ref", "from_commit", "to_commit"]
    assert (rows[1]["from_commit"], rows[1]["to_commit"]) == (first["id"], second["id"])
    assert (rows[0]["from_commit"], rows[0]["who"]) == (None, "tester")
    assert said("op", "log", main) == rows[1:]
    assert said("op", "log", scene.uri(), "--amount", "1") == rows[:1]
    header, line, *_ = (each.split() for each in ok("op", "log", dev).splitlines())
    assert header == ["date", "who", "verb", "ref", "from", "to"]
    assert line[2:] == ["tester", "create-branch", "dev", "-", second["id"][:12]]
    back = {**said("branch", "set", main, "--never"), "commit_id": first["id"]}
    assert said("op", "undo", main) == {**back, "undone": rows[1]}
    text = (
        f"{main} is back at {second['id'][:12]}: undid the undo to {first['id'][:12]} by tester\n"
    )
    assert ok("op", "undo", main) == text
    assert [each["verb"] for each in said("op", "log", main)[:2]] == ["undo", "undo"]
    assert "nothing to undo" in failed(4, "op", "undo", dev)


def test_json_lines_have_a_row_each(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "b": "2"})
    rows = ok("--output", "jsonl", "ls", scene.uri("main") + "/").splitlines()
    assert [json.loads(each) for each in rows] == said("ls", scene.uri("main") + "/")
    assert ok("--output", "jsonl", "ls", scene.uri("main$")) == ""
    (line,) = ok("show", scene.uri("main"), "--output", "jsonl").splitlines()
    assert json.loads(line) == said("show", scene.uri("main"))
    ran = run("--output", "jsonl", "show", scene.uri("nothing"))
    (line,) = ran.text.splitlines()
    assert (ran.code, json.loads(line)["kind"]) == (13, "ref_not_found")


def test_a_missing_branch_can_be_deleted_where_that_is_allowed(scene: Scene) -> None:
    dev = scene.branch("dev")
    assert said("branch", "delete", "--yes", dev, "--missing-ok")["deleted"] is True
    gone = said("branch", "delete", "--yes", dev, "--missing-ok")
    assert gone == {"name": "dev", "deleted": False, "commit_id": None}
    assert "dev" in failed(13, "branch", "delete", "--yes", dev)


def test_a_program_can_ask_for_the_options_of_a_command() -> None:
    assert {"--once", "--message", "-m"} <= option_names(["merge"])
    assert "--once" in option_names(["branch", "create"])
    assert "--once" not in option_names(["branch", "prune"])


@pytest.mark.parametrize("words", [[], ["nothing"], ["branch"], ["merge", "more"]])
def test_a_command_that_does_not_exist_has_no_options(words: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="there is no command"):
        option_names(words)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("theirs", "source-wins"),
        ("t/=ours", "t/=dest-wins"),
        ("rows(id, then=theirs)", "rows(id, then=source-wins)"),
        ("t/=rows(a,columns=true,then = ours )", "t/=rows(a,columns=true,then = dest-wins )"),
        ("t/then=ours/=rows(`then=ours`)", "t/then=ours/=rows(`then=ours`)"),
        ("newest-wins", "newest-wins"),
    ],
)
def test_git_names_of_strategies_are_replaced(text: str, name: str) -> None:
    assert without_git_names(text) == name
