"""Checks as a command and as a job: documents, text and exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Scene, failed, ok, run, said
from tests.jobs.running import job


def test_a_check_exits_by_severity(scene: Scene) -> None:
    scene.commit("main", {"a": "1", "b": "22"})
    text = ok("check", scene.uri())
    assert "nothing is lost or damaged" in text
    assert "2 objects and the content of 0" in text
    found = job(0, "check", scene.uri(), "--content")
    assert (found["level"], found["is_healthy"], found["counts"]["contents"]) == (
        "content",
        True,
        2,
    )
    assert said("check", scene.uri(), "--refs")["counts"]["records"] == 0

    Path(said("stat", scene.uri("main", "a"))["address"].removeprefix("file://")).unlink()
    found = job(10, "check", scene.uri())
    (finding,) = found["findings"]
    assert (finding["kind"], finding["severity"]) == ("object_missing", "error")
    assert (finding["first_path"], finding["branches"]) == ("a", ["main"])
    ran = run("check", scene.uri())
    assert ran.code == 10
    assert "error: 1 object_missing: an object is missing at its address" in ran.text
    assert "path a; commit " in ran.text

    assert run("check", scene.uri(), "--trees").code == 0
    failed(2, "check", scene.uri(), "--trees", "--content")
    failed(2, "check", scene.uri(), "--sample", "0.5")
    failed(13, "check", scene.uri(), "--resume", "20260101T000000Z-00000000")


def test_warnings_have_an_exit_code_of_their_own(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    ok("refs", "dump", scene.uri())
    manifest = scene.namespace / "_lakefs" / "refs_manifest.json"
    manifest.write_bytes(b"{")
    assert job(9, "check", scene.uri())["kinds"]["dump_damaged"] == 1
    assert "warning: 1 dump_damaged" in run("check", scene.uri()).text
