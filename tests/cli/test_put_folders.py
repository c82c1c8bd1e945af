"""Folders that are put as a whole, by the command and by the job."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.cli.running import Scene, failed, ok, said
from tests.jobs.running import job

PUT = {"put": 2, "skipped": []}


def folder(tmp_path: Path) -> str:
    made = tmp_path / "some data"
    (made / "d").mkdir(parents=True)
    (made / "a b").write_bytes(b"1")
    (made / "d" / "c%").write_bytes(b"22")
    return str(made)


def test_a_folder_is_put(scene: Scene, tmp_path: Path) -> None:
    given, below, main = folder(tmp_path), scene.uri("main", "x"), scene.uri("main", "")
    assert said("put", given, below, "-r", "--meta", "k=v") == PUT | {"path": "x"}
    assert scene.paths("main") == ["x/a b", "x/d/c%"]
    assert said("stat", scene.uri("main", "x/a b"))["metadata"] == {"k": "v"}
    assert ok("put", "-r", given, main).startswith("staged 2 objects below ")
    assert job(0, "put", "-r", given, scene.uri("main", "y/")) == PUT | {"path": "y/"}
    assert scene.paths("main") == [*("a b", "d/c%", "x/a b", "x/d/c%", "y/a b", "y/d/c%")]


def test_a_folder_needs_its_option_and_a_file_none(scene: Scene, tmp_path: Path) -> None:
    given = folder(tmp_path)
    assert "is not a file" in failed(2, "put", given, scene.uri("main", "x"))
    assert "is not a folder" in failed(2, "put", "-r", f"{given}/a b", scene.uri("main", "x"))
    assert job(2, "put", "-r", f"{given}/a b", scene.uri("main", "x"))["kind"] == "invalid_input"
    assert "overlaps" in failed(2, "put", "-r", str(scene.namespace), scene.uri("main", "x"))
    assert scene.paths("main") == []


def odd_folder(tmp_path: Path) -> str:
    """Make a folder that has two files, and one of all that is none."""
    made = Path(folder(tmp_path))
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "beyond").mkdir()
    (tmp_path / "beyond" / "f").write_bytes(b"beyond")
    (made / "file").symlink_to(tmp_path / "secret")
    (made / "d" / "folder").symlink_to(tmp_path / "beyond")
    (made / "d" / "loop").symlink_to(made)
    (made / "gone").symlink_to("nowhere")
    (made / "self").symlink_to("self")
    os.mkfifo(made / "pipe\x1b[31m")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(made / "socket"))
    return str(made)


SPECIAL = {"pipe\x1b[31m": "fifo", "socket": "socket"}


def test_what_is_no_file_of_the_folder_is_skipped_and_listed(scene: Scene, tmp_path: Path) -> None:
    given, links = odd_folder(tmp_path), {"d/folder": "link", "d/loop": "link", "file": "link"}
    dangling = dict.fromkeys(["gone", "self"], "dangling_link")
    for made in (
        said("put", "-r", given, scene.uri("main", "x")),
        job(0, "put", "-r", given, scene.uri("main", "x")),
    ):
        skipped = {each["path"]: each["reason"] for each in made["skipped"]}
        assert (made["put"], skipped) == (2, links | dangling | SPECIAL)
    assert scene.paths("main") == ["x/a b", "x/d/c%"]
    text = ok("put", "-r", given, scene.uri("main", "x"))
    assert "skipped 7 that are not regular files (--follow-links follows links):" in text
    assert "  dangling link  gone\n" in text
    assert "pipe\\x1b[31m" in text
    assert "\x1b" not in text


def test_links_are_followed_on_request_and_never_in_circles(scene: Scene, tmp_path: Path) -> None:
    given = odd_folder(tmp_path)
    for made in (
        said("put", "-r", given, scene.uri("main", "x"), "--follow-links"),
        job(0, "put", "-r", given, scene.uri("main", "x"), "--follow-links"),
    ):
        skipped = {each["path"]: each["reason"] for each in made["skipped"]}
        wanted = {"d/loop": "link_loop", "gone": "dangling_link", "self": "link_loop"} | SPECIAL
        assert (made["put"], skipped) == (4, wanted)
    assert scene.paths("main") == ["x/a b", "x/d/c%", "x/d/folder/f", "x/file"]
    assert ok("cat", scene.uri("main", "x/file")) == "secret"


def test_no_link_leads_to_the_namespace(scene: Scene, tmp_path: Path) -> None:
    given = Path(folder(tmp_path))
    (given / "own").symlink_to(scene.namespace)
    assert "overlaps" in failed(
        2, "put", "-r", str(given), scene.uri("main", "x"), "--follow-links"
    )
    assert said("put", "-r", str(given), scene.uri("main", "x"))["put"] == 2


def test_a_folder_of_links_alone_is_refused_and_a_link_that_is_named_is_followed(
    scene: Scene, tmp_path: Path
) -> None:
    given, named = Path(folder(tmp_path)), tmp_path / "named"
    named.symlink_to(given)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "x").symlink_to(given / "a b")
    assert "1 that are skipped" in failed(
        2, "put", "-r", str(tmp_path / "links"), scene.uri("main", "x")
    )
    assert said("put", "-r", str(named), scene.uri("main", "x"))["put"] == 2
    assert said("put", str(tmp_path / "links" / "x"), scene.uri("main", "one"))["size"] == 1
