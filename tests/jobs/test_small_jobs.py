"""Jobs that need no Spark, in this process: they print what the command prints as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparklake
from sparklake.cli.jobs import FILE
from sparklake.errors import StoreUnreachableError
from sparklake.repository import Repository
from sparklake.rows.objects import ObjectInfo
from tests.cli.running import Scene, ok, said
from tests.cli.running import run as command
from tests.jobs.running import job, run


def test_repositories(tmp_path: Path, dsn: str) -> None:
    lake = ("--dsn", dsn)
    assert job(0, "repo list", *lake) == []
    made = job(
        *(0, "repo create", *lake, "lakefs://one", str(tmp_path / "1")), *("--range-records", "7")
    )
    assert made["range_records"] == 7
    two = job(0, "repo create", *lake, "lakefs://two", str(tmp_path / "2"))
    assert job(0, "repo list", *lake) == [made, two] == said(*lake, "repo", "list")
    assert job(0, "repo delete", "--yes", *lake, "lakefs://one") == {
        "name": "one",
        "deleted": True,
        "storage_namespace": f"file://{tmp_path / '1'}",
    }
    assert job(0, "repo delete", "lakefs://two", "--yes", *lake)["deleted"] is True
    assert job(13, "repo delete", "--yes", *lake, "lakefs://two")["kind"] == "repository_not_found"
    assert job(2, "repo delete", "--yes", *lake, "lakefs://two/main")["kind"] == "invalid_uri"
    assert job(0, "repo list", *lake) == []


def test_branches(scene: Scene) -> None:
    head = scene.commit("main", {"a": "1"})
    dev = scene.uri("dev:joe-bugfix-1234")
    made = job(0, "branch create", dev, "--source", scene.uri("main"))
    assert made == {
        "name": "dev:joe-bugfix-1234",
        "commit_id": head["id"],
        "dirty": False,
        "hidden": False,
        "expires": None,
        "expired": False,
        "protected": [],
    }
    scene.put("main", {"b": "2"})
    listing = job(0, "branch list", scene.uri())
    assert listing == said("branch", "list", scene.uri())
    assert [each["dirty"] for each in listing] == [False, True]
    clean = {"name": "main", "dirty": False, "dropped": 1}
    assert job(0, "reset", "--yes", scene.uri("main")) == clean
    assert scene.paths("main") == ["a"]
    scene.put("main", {"b": "2", "c/d": "3", "e": "4"})
    assert job(0, "reset", "--yes", scene.uri("main"), "--prefix", "c/")["dirty"] is True
    assert job(0, "reset", "--yes", "--object", "b", scene.uri("main"))["dirty"] is True
    assert scene.paths("main") == ["a", "e"]
    assert job(0, "reset", "--yes", scene.uri("main"), "--object", "e")["dirty"] is False
    assert job(13, "reset", "--yes", scene.uri("v1"))["kind"] == "ref_not_found"
    assert job(0, "branch delete", "--yes", dev)["deleted"] is True
    assert job(13, "branch delete", "--yes", dev)["kind"] == "ref_not_found"
    assert job(11, "branch delete", "--yes", scene.uri("main"))["kind"] == "protected"
    assert job(2, "branch list", scene.uri("main"))["kind"] == "invalid_uri"


def test_tags(scene: Scene) -> None:
    head = scene.commit("main", {"a": "1"})
    made = job(0, "tag create", scene.uri("v2.3"), scene.uri("main"))
    assert (made["name"], made["commit_id"]) == ("v2.3", head["id"])
    assert job(14, "tag create", scene.uri("v2.3"), scene.uri("main"))["kind"] == "already_exists"
    assert job(0, "tag list", scene.uri()) == [made] == said("tag", "list", scene.uri())
    assert job(0, "tag delete", "--yes", scene.uri("v2.3")) == {"name": "v2.3", "deleted": True}
    assert job(13, "tag delete", "--yes", scene.uri("v2.3"))["kind"] == "ref_not_found"
    assert job(0, "tag list", scene.uri()) == []
    wrong = job(2, "tag create", scene.uri("v3"), "lakefs://other/main")
    assert wrong["kind"] == "invalid_uri"


def test_refs(scene: Scene, dsn: str) -> None:
    head = scene.commit("main", {"a": "1"})
    made = job(0, "refs dump", scene.uri())
    assert made == said("refs", "dump", scene.uri())
    assert (made["branches"], made["tags"], made["commits"], made["dirty"]) == (1, 0, 2, [])
    lake = ("--dsn", dsn)
    words = ("refs restore", *lake, "lakefs://back", str(scene.namespace))
    assert job(2, *words, "--default-branch", "dev")["kind"] == "invalid_input"
    assert job(2, *words, "--range-records", "5")["kind"] == "invalid_input"
    assert job(0, *words) == said(*lake, "repo", "list")[0]
    assert said(*lake, "log", "lakefs://back/main")[0] == head
    assert job(14, *words)["kind"] == "already_exists"
    assert job(14, "refs dump", scene.uri())["kind"] == "namespace_in_use"
    assert job(0, "repo delete", "--yes", *lake, "lakefs://back")["deleted"] is True


def test_an_object_is_put_looked_at_and_removed(scene: Scene, tmp_path: Path) -> None:
    body = bytes(range(256))
    file = tmp_path / "file.bin"
    file.write_bytes(body)
    uri = scene.uri("main", "a/b?c#d e%.bin")
    staged = job(0, "put", str(file), "--content-type", "x/y", uri, "--meta", "k=v=w")
    assert (staged["content_type"], staged["metadata"]) == ("x/y", {"k": "v=w"})
    assert job(0, "stat", uri) == staged == said("stat", uri)
    ran = run("cat", uri)
    assert (ran.code, ran.out) == (0, body)
    assert [line.partition(" INFO ")[1] for line in ran.err.splitlines()] == [" INFO "] * 2
    assert job(0, "put", "-", scene.uri("main", "in"), stdin=b"\0in")["size"] == 3
    assert run("cat", scene.uri("main", "in")).out == b"\0in"
    assert job(2, "put", "no-such-file", uri)["kind"] == "invalid_input"
    assert job(2, "put", str(file), uri, "--meta", "k")["kind"] == "invalid_input"
    assert job(0, "rm", uri) == {"path": "a/b?c#d e%.bin", "removed": 1}
    for name in ("stat", "cat", "rm"):
        assert job(13, name, uri)["kind"] == "object_not_found"
        assert job(2, name, scene.uri("main", ""))["kind"] == "invalid_uri"


def test_mv_and_cp(scene: Scene) -> None:
    scene.put("main", dict.fromkeys(["a", "a/1", "ab/3"], "x"))
    main = scene.uri("main", "")
    assert job(0, "mv", f"{main}a", f"{main}c", "-r") == {"source": "a", "path": "c", "moved": 2}
    assert scene.paths("main") == ["ab/3", "c", "c/1"]
    copied = {"source": "c/", "path": "ab/", "copied": 1}
    assert job(0, "cp", f"{main}c/", f"{main}ab/") == copied
    assert job(14, "cp", f"{main}c/", f"{main}ab/")["kind"] == "already_exists"
    assert job(0, "cp", f"{main}c/", f"{main}ab/", "--force") == copied
    assert job(2, "mv", f"{main}c/", f"{main}c/d/")["kind"] == "invalid_input"
    assert job(2, "mv", scene.uri("v0", "c/"), f"{main}d/")["kind"] == "invalid_uri"


def test_rm_takes_a_folder_and_not_its_namesakes(scene: Scene) -> None:
    scene.put("main", dict.fromkeys(["a", "a/1", "a/b/2", "a-b", "ab/3"], "x"))
    assert job(0, "rm", "-r", scene.uri("main", "a")) == {"path": "a", "removed": 3}
    assert scene.paths("main") == ["a-b", "ab/3"]
    assert job(13, "rm", scene.uri("main", "a"), "--recursive")["kind"] == "object_not_found"
    assert job(2, "rm", "-r", scene.uri("main"))["kind"] == "invalid_uri"
    assert job(0, "rm", "-r", scene.uri("main", "")) == {"path": "", "removed": 2}
    assert scene.paths("main") == []


def test_ls_lists_one_level_or_all(scene: Scene) -> None:
    scene.commit("main", dict.fromkeys(["a", "a/1", "a/b/2", "日本/é"], "x"))
    scene.put("main", {"z": "staged"})
    for words in (["a"], ["a/"], ["a", "-r"], ["", "--recursive"], [""]):
        uri = scene.uri("main", words[0])
        assert job(0, "ls", uri, *words[1:]) == said("ls", uri, *words[1:])
    assert len(job(0, "ls", "-r", scene.uri("main@"))) == 4
    assert job(13, "ls", scene.uri("main", "nothing/"))["kind"] == "object_not_found"
    assert job(13, "ls", scene.uri("nothing"))["kind"] == "ref_not_found"


def test_a_list_that_is_cut_short_cannot_be_taken_for_whole(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.put("main", {"a": "1"})
    listed = Repository.objects

    def objects(self: Repository, ref: str, prefix: str = "") -> Iterator[ObjectInfo]:
        yield from listed(self, ref, prefix)
        raise StoreUnreachableError("gone")

    monkeypatch.setattr(Repository, "objects", objects)
    ran = run("ls", "-r", scene.uri("main"))
    assert ran.code == 12
    with pytest.raises(json.JSONDecodeError):
        json.loads(ran.text)
    _, error, _ = ran.err.splitlines()
    assert json.loads(error) == {"error": "gone", "kind": "store_unreachable"}
    typed = command("--output", "json", "ls", "-r", scene.uri("main"))
    assert (typed.code, typed.out, json.loads(typed.err)) == (ran.code, ran.out, json.loads(error))


def test_rebase(scene: Scene) -> None:
    dev, main = scene.diverge()
    assert job(3, "rebase", dev, "--onto", main)["kind"] == "merge_conflict"
    done = job(0, "rebase", dev, "--onto", main, "--strategy", "source-wins")
    assert (done["name"], done["commits"]) == ("dev", [done["commit_id"]])
    assert job(4, "rebase", dev, "--onto", main)["kind"] == "no_changes"
    assert job(13, "rebase", dev, "--onto", scene.uri("nothing"))["kind"] == "ref_not_found"


def test_merge_base(scene: Scene) -> None:
    dev, main = scene.diverge()
    assert job(0, "merge-base", dev, main) == said("merge-base", dev, main)
    assert job(0, "merge-base", dev, main, "--all") == said("merge-base", dev, main, "--all")
    assert job(13, "merge-base", dev, scene.uri("nothing"))["kind"] == "ref_not_found"


def test_log_and_show(scene: Scene) -> None:
    dev, main = scene.diverge()
    ok("merge", dev, main, "--strategy", "dest-wins")
    for words in (
        [],
        ["--first-parent", "--amount", "2"],
        ["--no-merges", "--after", "main"],
        ["--stop-at", "main~1", "--since", "2020-01-01", "--until", "2100-01-01T00:00:00Z"],
    ):
        assert job(0, "log", main, *words) == said("log", main, *words) != []
    assert job(2, "log", main, "--since", "never")["kind"] == "invalid_input"
    assert job(0, "show", main) == said("show", main)
    assert job(13, "show", scene.uri("nothing"))["kind"] == "ref_not_found"


def test_no_spark_is_loaded_where_none_is_needed(scene: Scene) -> None:
    """As a script, whose folder is the first place where Python looks for modules."""
    ok("put", "-", scene.uri("main", "a"), stdin=b"1")
    environment = {**os.environ, "JAVA_HOME": "/nowhere"}
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        environment.pop(name, None)
    for words in (("stat", scene.uri("main", "a")), ("commit", scene.uri("main"), "-m", "x")):
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", FILE, *words],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        assert isinstance(json.loads(ran.stdout), dict)
        assert "sparklake.lake" in ran.stderr
        assert "pyspark" not in ran.stderr


def test_reverts_and_cherry_picks(scene: Scene) -> None:
    dev, main = scene.diverge()
    words = (main, scene.uri("dev"), "--rule", "b*=source-wins", "--meta", "k=v", "-m", "take it")
    assert job(3, "cherry-pick", main, dev)["count"] == 1
    assert job(3, "cherry-pick", main, dev, "--rule", "left=none")["count"] == 1
    (picked,) = job(0, "cherry-pick", *words, "--committer", "joe")
    assert (picked["committer"], picked["message"]) == ("joe", "take it")
    assert (picked["metadata"]["k"], len(picked["metadata"])) == ("v", 3)
    made = job(0, "revert", main, main, scene.uri("main~1"))
    assert made == said("log", main)[:2][::-1]
    assert scene.paths("main") == ["both", "left", "right"]
    assert job(4, "revert", main, main, main)["kind"] == "no_changes"
    assert len(job(0, "revert", main, main, main, "--allow-empty")) == 2
    assert job(2, "revert", main, "lakefs://other/main")["kind"] == "invalid_uri"
    assert job(2, "revert", main, main, "--parent-number", "2")["kind"] == "invalid_input"
    assert job(13, "cherry-pick", main, scene.uri("nothing"))["kind"] == "ref_not_found"


def test_moves_of_branches(scene: Scene) -> None:
    first = scene.commit("main", {"a": "1"})
    scene.commit("main", {"a": "2"})
    main, back = scene.uri("main"), scene.uri("main~1")
    assert job(0, "op log", main) == said("op", "log", main)
    assert len(job(0, "op log", scene.uri(), "--amount", "2")) == 2
    assert job(2, "op log", scene.uri("main", "a"))["kind"] == "invalid_uri"
    assert job(5, "hard-reset", main, back, "--expect", back)["kind"] == "unexpected_head"
    there = {**said("branch", "list", scene.uri())[0], "commit_id": first["id"]}
    del there["head"]  # Only a listing has it.
    assert job(0, "hard-reset", main, back, "--expect", main) == there
    assert job(0, "op undo", main)["commit_id"] != first["id"]
    undo = job(0, "op undo", main)
    assert undo.pop("undone")["verb"] == "undo"
    assert undo == there
    scene.put("main", {"a": "3"})
    assert job(4, "op undo", main)["kind"] == "dirty_branch"
    assert job(4, "hard-reset", main, main)["kind"] == "dirty_branch"
    assert job(0, "hard-reset", main, main, "--force", "--yes") == there
    assert job(13, "op undo", scene.uri("nothing"))["kind"] == "ref_not_found"


def test_writes(scene: Scene) -> None:
    assert job(0, "writes", scene.uri()) == said("writes", scene.uri()) == []
    assert job(13, "abandon-write", scene.uri(), "nothing")["kind"] == "not_found"
    with sparklake.connect() as lake:
        writes = lake.repository(scene.name)._context.refs.writes
        open_write = writes.begin("w1", "data/w1", "main", "joe").id
    (found,) = job(0, "writes", scene.uri())
    assert (found["id"], found["state"], found["branch"]) == (open_write, "open", "main")
    assert said("writes", scene.uri()) == [found]
    assert open_write in ok("writes", scene.uri())
    ended = job(0, "abandon-write", scene.uri(), open_write)
    assert ended == {**found, "state": "abandoned"}
    assert said("abandon-write", scene.uri(), open_write) == ended
    assert job(2, "writes", scene.uri("main"))["kind"] == "invalid_uri"
