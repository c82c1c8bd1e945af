"""`sparklake purge` and its jobs."""

from __future__ import annotations

from tests.cli.running import Scene, ok, run, said
from tests.jobs.running import job


def test_purge(scene: Scene) -> None:
    scene.commit("main", {"users/1": "one", "kept": "kept"})
    assert run("purge", "run", "--yes", scene.uri(), "users/1").code == 4
    assert "would purge 1 object of 1 path, 3 bytes" in ok(
        "purge", "run", scene.uri(), "users/", "--dry-run"
    )
    made = said("purge", "run", scene.uri(), "users/*", "-m", "request 7", "--commit", "--yes")
    assert (made["state"], made["patterns"], made["message"]) == ("done", ["users/*"], "request 7")
    assert made["counts"] == {"paths": 1, "addresses": 1, "size": 3, "external": 0, "shared": 0}
    assert made["receipt"].endswith(f"/_sparklake/purges/{made['id']}/receipt")
    assert said("purge", "list", scene.uri()) == [made] == job(0, "purge list", scene.uri())
    assert made["id"] in ok("purge", "list", scene.uri())
    assert said("purge", "show", scene.uri(), made["id"]) == made
    assert job(0, "purge show", scene.uri(), made["id"]) == made
    assert job(0, "purge resume", scene.uri(), made["id"]) == made
    assert ok("purge", "resume", scene.uri(), made["id"])
    gone = run("cat", scene.uri("main~1", "users/1"), "--output", "json")
    assert (gone.code, gone.json["kind"]) == (10, "purged")
    assert job(4, "purge run", "--yes", scene.uri(), "kept")["kind"] == "purge_blocked"
    assert job(0, "purge run", scene.uri(), "kept", "--dry-run")["receipt"] == ""
