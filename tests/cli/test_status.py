"""`sparklake status`."""

from __future__ import annotations

from tests.cli.running import Scene, failed, ok, said


def test_the_status_of_a_branch(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "b": "1"})
    dev = scene.branch("dev")
    assert ok("status", scene.uri("main")).splitlines()[1:] == [
        "staged: nothing",
        "0 commits ahead of main, 0 behind",
    ]
    scene.commit("main", {"main": "1"})
    head = scene.commit("dev", {"dev": "1"}, "on dev")
    scene.commit("dev", {"dev": "2"})
    ok("op", "undo", dev)
    scene.put("dev", {"a": "2", "b": None, "new": "1", "dev": "1"})
    assert said("status", dev) == {
        "name": "dev",
        "commit_id": head["id"],
        "staged": {"added": 1, "removed": 1, "changed": 1},
        "against": "main",
        "ahead": 1,
        "behind": 1,
    }
    assert ok("status", dev) == (
        f"{dev} is at {head['id'][:12]} on dev\n"
        "staged: 1 added, 1 removed, 1 changed\n"
        "1 commit ahead of main, 1 behind\n"
    )
    against = said("status", scene.uri("main"), "--against", scene.uri("main~1"))
    assert (against["against"], against["ahead"], against["behind"]) == ("main~1", 1, 0)
    assert "did you mean 'dev'" in failed(13, "status", scene.uri("devv"))
