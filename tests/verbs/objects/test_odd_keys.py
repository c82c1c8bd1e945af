"""Keys that only other programs write: read, removed, moved, exported, never outside a root."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import InvalidKeyError
from sparklake.fs.filesystem import SparklakeFileSystem
from sparklake.graveler.entries import Entry
from sparklake.graveler.keys import ESCAPED_FOLDER, escaped_key
from sparklake.testing.lakes import contents, files_below, memory_lake, stage_table
from tests.support.foreign import foreign_record, restored_tree
from tests.support.lakes import paths
from tests.support.s3_fixtures import Bucket

ODD = [
    "..",
    "../../out",
    "..\0",
    "/",
    "/abs",
    "//",
    "a",
    "a/",
    "a/../b",
    "a/./c",
    "a//b",
    "a\0b",
    "plain/x",
    "x/..",
]
BODIES = {path: path.encode() for path in ODD}


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def repo(lake: Lake, folder: Path) -> Repository:
    records = []
    (folder / "root" / "ns" / "data").mkdir(parents=True)
    for number, path in enumerate(sorted(ODD, key=str.encode)):
        body = BODIES[path]
        (folder / "root" / "ns" / "data" / str(number)).write_bytes(body)
        digest = md5(body, usedforsecurity=False).hexdigest()
        entry = Entry(f"data/{number}", len(body), digest, 10**9)
        records.append(foreign_record(path, entry))
    return restored_tree(lake, folder / "root" / "ns", records, cuts=[3, 7])


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def test_they_are_read(repo: Repository) -> None:
    assert contents(repo, "main") == BODIES
    for path, body in BODIES.items():
        assert repo.stat("main", path).path == path
        assert repo.read_bytes("main", path) == body
        with repo.open("main", path) as file:
            assert file.read() == body
    assert repo.at("main").lookup(ODD).column("size").to_pylist() == [len(each) for each in ODD]
    assert [each.path for each in repo.objects("main", "/")] == ["/", "//", "/abs"]
    assert len(list(repo.log("main", path="/abs"))) == 1


@pytest.mark.parametrize("path", ODD)
def test_each_is_removed(repo: Repository, main: Branch, path: str) -> None:
    main.delete(path)
    main.commit("removed")
    assert [each.path for each in repo.diff("main~1", "main")] == [path]
    assert sorted(paths(repo, "main")) == sorted(each for each in ODD if each != path)
    main.restore("main~1", [path])
    main.commit("back")
    assert contents(repo, "main") == BODIES


def test_all_are_removed_at_once(repo: Repository, main: Branch) -> None:
    main.stage(stage_table([{"path": path, "deleted": True} for path in ODD]))
    main.reset(path="/abs")
    main.commit("removed")
    assert paths(repo, "main") == ["/abs"]


@pytest.mark.parametrize("path", [each for each in ODD if not each.endswith("/")])
def test_each_is_moved(repo: Repository, main: Branch, path: str) -> None:
    main.move(path, "moved/here")
    main.commit("moved")
    found = contents(repo, "main")
    assert found.pop("moved/here") == BODIES[path]
    assert found == {each: body for each, body in BODIES.items() if each != path}


def test_folders_are_moved(repo: Repository, main: Branch) -> None:
    main.move("/", "root/")
    main.commit("moved")
    assert [each.path for each in repo.objects("main", "root/")] == ["root/", "root//", "root/abs"]


def test_new_objects_get_no_such_key(main: Branch) -> None:
    for path in ("/abs", "a/../b", "..", "a\0b"):
        with pytest.raises(InvalidKeyError):
            main.put(path, b"1")
        with pytest.raises(InvalidKeyError):
            main.move("plain/x", path)
        with pytest.raises(InvalidKeyError):
            main.copy("plain/x", path)


def test_they_are_exported_under_escaped_names(repo: Repository, folder: Path) -> None:
    before = files_below(folder / "root" / "ns")
    done = repo.export("main", str(folder / "root" / "out"), prefix="")
    assert done.added == len(ODD)
    plain = {"a", "plain/x"}
    expected = {
        path if path in plain else f"{ESCAPED_FOLDER}{escaped_key(path)}": body
        for path, body in BODIES.items()
    }
    out = folder / "root" / "out"
    own = ("_manifest", "_sparklake_export")
    written = {
        str(file.relative_to(out)): file.read_bytes()
        for file in out.rglob("*")
        if file.is_file() and not str(file.relative_to(out)).startswith(own)
    }
    assert written == expected
    assert set(folder.iterdir()) == {folder / "root"}
    assert files_below(folder / "root" / "ns") == before


def test_an_incremental_export_removes_escaped_names(
    repo: Repository, main: Branch, folder: Path
) -> None:
    out = folder / "root" / "out"
    repo.export("main", str(out))
    for path in ODD:
        if path != "plain/x":
            main.delete(path)
    main.commit("removed")
    done = repo.export("main", str(out), incremental=True)
    assert done.removed == len(ODD) - 1
    assert not (out / ESCAPED_FOLDER).exists()
    assert (out / "plain" / "x").read_bytes() == b"plain/x"


def test_no_copy_by_fsspec_leaves_its_folder(lake: Lake, repo: Repository, folder: Path) -> None:
    fs = SparklakeFileSystem(lake=lake)
    out = folder / "root" / "deep" / "out"
    out.mkdir(parents=True)
    before = files_below(folder)
    with pytest.raises((ValueError, InvalidKeyError), match=r"\.\.|local file"):
        fs.get("lakefs://foreign/main/", f"{out}/", recursive=True)
    with pytest.raises((ValueError, InvalidKeyError), match=r"\.\.|local file"):
        fs.get("lakefs://foreign/main/..", f"{out}/")
    assert files_below(folder) == before
    fs.get_file("foreign/main//abs", str(out / "abs"))
    assert (out / "abs").read_bytes() == b"/abs"
    assert fs.cat_file("foreign/main/a\0b") == b"a\0b"


def test_a_bucket_gets_escaped_names_where_it_must(repo: Repository, bucket: Bucket) -> None:
    repo.export("main", f"s3://{bucket.name}/out")
    plain = {"a", "a/", "a//b", "plain/x"}
    expected = {
        path if path in plain else f"{ESCAPED_FOLDER}{escaped_key(path)}": body
        for path, body in BODIES.items()
    }
    found = {key.removeprefix("out/"): bucket.get(key) for key in bucket.objects("out/")}
    own = ("_manifest", "_sparklake_export")
    assert {name: body for name, body in found.items() if not name.startswith(own)} == expected
