"""Jobs that keep to chosen paths."""

from __future__ import annotations

from tests.cli.running import Scene, said
from tests.jobs.running import job


def test_commit_merge_and_restore(scene: Scene) -> None:
    dev, main = scene.diverge()
    found = job(0, "merge", dev, main, "--dry-run", "--path", "right")
    assert found == said("merge", dev, main, "--dry-run", "--path", "right")
    assert job(0, "merge", dev, main, "--explain", "--path", "right") == found["cost"]
    made = job(0, "merge", dev, main, "--path", "right", "--meta", "k=v")
    assert (len(made["parents"]), made["metadata"]["merge-paths"]) == (1, '["right"]')
    assert made == said("log", main)[0]
    words = ("--squash", "--allow-empty", "--strategy", "dest-wins")
    assert len(job(0, "merge", dev, main, *words)["parents"]) == 1
    assert job(2, "merge", dev, main, "--path", "")["kind"] == "invalid_key"

    back = scene.uri("main~2")
    found = job(0, "restore", main, "--from", back, "--path", "right", "--path", "left")
    assert found["staged"] == {"added": 1, "removed": 0, "changed": 0}
    assert job(0, "commit", main, "--explain", "--path", "x")["opened"] == 0
    scene.put("main", {"new": "1"})
    made = job(0, "commit", main, "-m", "one", "--path", "new")
    assert made == said("log", main)[0]
    assert [each["path"] for each in said("diff", main)] == ["right"]
    assert job(13, "restore", main, "--from", main, "--path", "x")["kind"] == "object_not_found"
    assert job(4, "commit", main, "-m", "none", "--path", "x/")["kind"] == "no_changes"
