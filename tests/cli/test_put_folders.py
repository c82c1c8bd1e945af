"""Folders that are put as a whole, by the command and by the job."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Scene, failed, ok, said
from tests.jobs.running import job


def folder(tmp_path: Path) -> str:
    made = tmp_path / "some data"
    (made / "d").mkdir(parents=True)
    (made / "a b").write_bytes(b"1")
    (made / "d" / "c%").write_bytes(b"22")
    return str(made)


def test_a_folder_is_put(scene: Scene, tmp_path: Path) -> None:
    given, below, main = folder(tmp_path), scene.uri("main", "x"), scene.uri("main", "")
    assert said("put", given, below, "-r", "--meta", "k=v") == {"path": "x", "put": 2}
    assert scene.paths("main") == ["x/a b", "x/d/c%"]
    assert said("stat", scene.uri("main", "x/a b"))["metadata"] == {"k": "v"}
    assert ok("put", "-r", given, main).startswith("staged 2 objects below ")
    assert job(0, "put", "-r", given, scene.uri("main", "y/")) == {"path": "y/", "put": 2}
    assert scene.paths("main") == [
        *("a b", "d/c%", "x/a b", "x/d/c%", "y/a b", "y/d/c%"),
    ]


def test_a_folder_needs_its_option_and_a_file_none(scene: Scene, tmp_path: Path) -> None:
    given = folder(tmp_path)
    assert "is not a file" in failed(2, "put", given, scene.uri("main", "x"))
    assert "is no folder" in failed(2, "put", "-r", f"{given}/a b", scene.uri("main", "x"))
    assert job(2, "put", "-r", f"{given}/a b", scene.uri("main", "x"))["kind"] == "invalid_input"
    assert "overlaps" in failed(2, "put", "-r", str(scene.namespace), scene.uri("main", "x"))
    assert scene.paths("main") == []
