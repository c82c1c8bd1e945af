"""Repairs as a command and as a job."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Scene, ok, run, said
from tests.jobs.running import job


def lose(scene: Scene, path: str) -> Path:
    lost = Path(said("stat", scene.uri("main", path))["address"].removeprefix("file://"))
    lost.unlink()
    return lost


def test_a_repair_shows_its_steps_and_does_them(scene: Scene) -> None:
    scene.commit("main", {"a": "the same", "b": "the same", "c": "alone"})
    assert "0 of 0 steps done" in ok("repair", scene.uri(), "--yes")
    lost = lose(scene, "b")
    planned = job(10, "repair", scene.uri(), "--dry-run")
    assert [(each["action"], each["is_done"]) for each in planned["steps"]] == [
        ("copy_object", False)
    ]
    refused = run("repair", scene.uri())
    assert (refused.code, "nothing was repaired" in refused.err) == (2, True)
    assert not lost.exists()
    made = job(0, "repair", scene.uri(), "--yes")
    assert (made["is_healthy"], made["steps"][0]["is_done"]) == (True, True)
    assert lost.read_text() == "the same"

    lose(scene, "c")
    ran = run("repair", scene.uri(), "--yes")
    assert ran.code == 10
    assert "no equal object was found: pass a copy with --from" in ran.text
    assert "1 fault left" in ran.text
