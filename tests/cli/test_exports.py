"""`sparklake export` and its job."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Scene, ok, run, said
from tests.jobs.running import job


def test_export(scene: Scene, tmp_path: Path) -> None:
    head = scene.commit("main", {"a": "1", "b/c": "22"})
    scene.put("main", {"staged": "staged"})
    to = str(tmp_path / "out")
    would = ok("export", scene.uri("main"), "--to", to, "--dry-run")
    assert "would export" in would
    assert not Path(to).exists()
    ran = run("export", scene.uri("main"), "--to", to)
    assert "2 added, 0 changed, 0 removed, 3 bytes" in ran.text
    assert "staged changes of main are not exported" in ran.err
    assert (tmp_path / "out" / "b" / "c").read_text() == "22"
    made = said("export", scene.uri("main", "b/"), "--to", f"{to}-b", "--manifest-format", "csv")
    assert made == {
        "to": f"file://{to}-b",
        "ref": "main",
        "commit": head["id"],
        "since": None,
        "prefix": "b/",
        "added": 1,
        "changed": 0,
        "removed": 0,
        "size": 2,
        "manifest": f"file://{to}-b/_manifest/{head['id']}",
        "dirty": True,
        "dry_run": False,
    }
    assert job(2, "export", scene.uri("main"), "--to", f"{to}-b")["kind"] == "invalid_input"
    again = job(0, "export", scene.uri("main"), "--to", to, "--incremental")
    assert (again["since"], again["added"]) == (head["id"], 0)
    listed = job(0, "export", scene.uri("main"), "--to", f"{to}-list", "--manifest-only")
    assert listed["manifest"] == f"file://{to}-list"
