"""Garbage collections as a command and as a job, one after the other."""

from __future__ import annotations

from tests.cli.running import Scene, failed, ok, said
from tests.jobs.running import job


def test_garbage_is_shown_and_goes(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    scene.put("main", {"b": "22"})
    ok("reset", "--yes", scene.uri("main"))
    words = (scene.uri(), "--dry-run", "--grace", "0m")
    assert said("gc", "run", scene.uri(), "--dry-run")["objects"] == 0
    found = said("gc", "run", "--yes", *words)
    assert (found["state"], found["objects"], found["bytes"]) == ("found", 1, 2)
    assert found["objects_listed"] == 2
    again = job(0, "gc run", "--yes", *words)
    assert {**again, "id": found["id"]} == found
    listing = said("gc", "list", scene.uri(), found["id"])
    assert listing == found["sample"] == job(0, "gc list", scene.uri(), found["id"])
    text = ok("gc", "list", scene.uri(), found["id"])
    assert listing[0]["address"] in text

    text = ok("gc", "run", "--yes", scene.uri(), "--sweep", found["id"], "--grace", "0m")
    assert "1 object with 2 B in total deleted, of 2 below data/" in text
    assert scene.paths("main") == ["a"]
    assert job(2, "gc run", "--yes", scene.uri(), "--sweep", found["id"])["kind"] == "invalid_input"
    assert job(0, "gc run", "--yes", scene.uri(), "--grace", "0m")["objects"] == 0
    failed(2, "gc", "run", "--yes", scene.uri(), "--grace", "soon")
    failed(13, "gc", "list", scene.uri(), "20240101T000000Z-0")


def test_rules_are_set_shown_and_cleared(scene: Scene) -> None:
    none = {"default_days": None, "branches": [], "tree_days": None}
    assert said("gc", "rules", "show", scene.uri()) == none
    assert ok("gc", "rules", "show", scene.uri()) == "every commit is kept\n"
    rules = ("--default", "30", "--branch", "main=365", "--branch", "dev-*=1")
    made = said("gc", "rules", "set", scene.uri(), *rules)
    assert made == {
        "default_days": 30,
        "tree_days": None,
        "branches": [{"pattern": "main", "days": 365}, {"pattern": "dev-*", "days": 1}],
    }
    assert said("gc", "rules", "show", scene.uri()) == made
    assert job(0, "gc rules show", scene.uri()) == made
    text = ok("gc", "rules", "show", scene.uri())
    periods = "main: 365 days\ndev-*: 1 day\nall others: 30 days\n"
    assert text == f"{periods}trees of expired commits: kept\n"
    assert job(0, "gc rules set", scene.uri(), "--default", "7")["branches"] == []
    assert job(0, "gc rules set", scene.uri(), *rules) == made
    assert job(0, "gc rules clear", scene.uri()) == none
    assert said("gc", "rules", "set", scene.uri(), *rules) == made
    assert said("gc", "rules", "clear", scene.uri()) == none
    for wrong in ("main", "main=", "=3", "main=soon", "a/b=3", "main=36501"):
        words = (scene.uri(), "--default", "7", "--branch", wrong)
        assert failed(2, "gc", "rules", "set", *words)
        assert job(2, "gc rules set", *words)["kind"] == "invalid_input"
    twice = ("--branch", "main=1", "--branch", "main=2")
    assert "two retention rules" in failed(
        2, "gc", "rules", "set", scene.uri(), "--default", "7", *twice
    )
    failed(2, "gc", "rules", "set", scene.uri(), "--default", "-1")
    assert said("gc", "rules", "show", scene.uri()) == none


def test_commits_expire_and_are_marked(scene: Scene) -> None:
    for body in ("1", "2", "3"):
        scene.commit("main", {"a": body})
    grace = (scene.uri(), "--grace", "0m")
    ok("gc", "rules", "set", scene.uri(), "--default", "0")
    found = said("gc", "run", *grace, "--dry-run")
    assert (found["objects"], found["commits_expired"]) == (2, 3)
    assert "3 commits would expire" in ok("gc", "run", *grace, "--dry-run")
    marks = [each.get("expired", False) for each in said("log", scene.uri("main"))]
    assert marks == [False] * 4
    assert "3 commits expired" in ok("gc", "run", "--yes", *grace)
    marks = [each.get("expired", False) for each in said("log", scene.uri("main"))]
    assert marks == [False, True, True, True]
    assert [each.get("expired", False) for each in job(0, "log", scene.uri("main"))] == marks
    assert ok("log", scene.uri("main")).count("[expired]") == 3
    assert said("show", scene.uri("main~1"))["expired"] is True
    assert "expired" not in said("show", scene.uri("main"))
    assert "its objects may be gone" in ok("show", scene.uri("main~1"))
    assert "expired" not in ok("show", scene.uri("main"))
    assert "has expired" in failed(8, "cat", scene.uri("main~1/a"))
    assert job(8, "branch create", scene.uri("new"), "--source", scene.uri("main~1")) == {
        "error": failed(8, "branch", "create", scene.uri("new"), "--source", scene.uri("main~1")),
        "kind": "expired",
    }
    assert said("stat", scene.uri("main~1/a"))["size"] == 1
