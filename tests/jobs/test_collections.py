"""Garbage collections as a command and as a job, one after the other."""

from __future__ import annotations

from tests.cli.running import Scene, failed, ok, said
from tests.jobs.running import job


def test_garbage_is_shown_and_goes(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    scene.put("main", {"b": "22"})
    ok("reset", scene.uri("main"))
    words = (scene.uri(), "--dry-run", "--grace", "0m")
    assert said("gc", "run", scene.uri(), "--dry-run")["objects"] == 0
    found = said("gc", "run", *words)
    assert (found["state"], found["objects"], found["bytes"]) == ("found", 1, 2)
    assert found["objects_listed"] == 2
    again = job(0, "collect_garbage", *words)
    assert {**again, "id": found["id"]} == found
    listing = said("gc", "list", scene.uri(), found["id"])
    assert listing == found["sample"] == job(0, "list_garbage", scene.uri(), found["id"])
    text = ok("gc", "list", scene.uri(), found["id"])
    assert listing[0]["address"] in text

    text = ok("gc", "run", scene.uri(), "--sweep", found["id"], "--grace", "0m")
    assert "1 object of 2 B in all deleted, of 2 below data/" in text
    assert scene.paths("main") == ["a"]
    assert job(2, "collect_garbage", scene.uri(), "--sweep", found["id"])["kind"] == "invalid_input"
    assert job(0, "collect_garbage", scene.uri(), "--grace", "0m")["objects"] == 0
    failed(2, "gc", "run", scene.uri(), "--grace", "soon")
    failed(1, "gc", "list", scene.uri(), "20240101T000000Z-0")
