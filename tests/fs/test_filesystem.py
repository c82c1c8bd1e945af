"""Lakes as a file system: listings, reads, writes and rejected calls."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any
from unittest import mock

import fsspec
import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import (
    ImmutableRefError,
    InvalidInputError,
    InvalidUriError,
    MissingFileError,
    ObjectNotFoundError,
    ProtectedError,
    RefStoreUnavailableError,
)
from sparklake.fs import SparklakeFileSystem
from sparklake.graveler.ports import LayerKind
from sparklake.testing.lakes import contents
from tests.support.lakes import paths
from tests.support.recorded_reads import recorded_parts

ODD = ["a b", "100%", "%41", "x=1/y?z", "a#b", "東京/🦆", "[x]*", "a//b", "'q\""]
TREE = {"a": b"1", "d/e": b"22", "d/f/g": b"333", "d.txt": b"4444"}


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


@pytest.fixture
def tree(repo: Repository, main: Branch) -> Branch:
    main.put_many(TREE)
    main.commit("tree")
    return main


# --- listings -------------------------------------------------------------------------------------


def test_the_root_lists_repositories_and_a_repository_lists_refs(
    fs: SparklakeFileSystem, lake: Lake, repo: Repository, folder: Path
) -> None:
    lake.create_repository("another", str(folder / "another"))
    repo.create_branch("dev:joe+1", "main")
    repo.create_tag("v1.0", "main")
    repo.create_branch("hidden", "main", hidden=True)
    assert fs.ls("lakefs://", detail=False) == fs.ls("", detail=False) == ["another", "repo"]
    refs = ["repo/dev:joe+1", "repo/main", "repo/v1.0"]
    assert fs.ls("lakefs://repo", detail=False) == refs
    assert fs.ls("lakefs://repo/main") == []
    for path in ("", "repo", *refs, "repo/main~0", "repo/main@", "repo/main$", "repo/hidden"):
        assert (fs.isdir(path), fs.isfile(path)) == (True, False), path
        assert fs.info(f"lakefs://{path}/") == {"name": path, "size": 0, "type": "directory"}


def test_one_level_of_a_ref_is_listed(fs: SparklakeFileSystem, tree: Branch) -> None:
    assert fs.ls("lakefs://repo/main", detail=False) == [
        *("repo/main/a", "repo/main/d.txt", "repo/main/d")
    ]
    below = fs.ls("repo/main/d/")
    assert [(each["name"], each["type"], each["size"]) for each in below] == [
        ("repo/main/d/e", "file", 2),
        ("repo/main/d/f", "directory", 0),
    ]
    assert fs.ls("repo/main/a") == [fs.info("repo/main/a")]
    assert (fs.isdir("repo/main/d"), fs.isfile("repo/main/d/e")) == (True, True)
    assert (fs.exists("repo/main/d"), fs.exists("repo/main/d/"), fs.exists("repo/main/")) == (
        *(True, True, True),
    )


def test_everything_below_a_path_is_found(fs: SparklakeFileSystem, tree: Branch) -> None:
    files = [f"repo/main/{path}" for path in sorted(TREE)]
    assert fs.find("lakefs://repo/main") == files
    assert fs.find("repo/main/d") == ["repo/main/d/e", "repo/main/d/f/g"]
    assert fs.find("repo/main/a") == ["repo/main/a"]
    assert fs.find("repo/main/nothing") == fs.find("repo/nothing") == fs.find("x/main") == []
    assert fs.find("repo/main/d", withdirs=True) == [
        *("repo/main/d", "repo/main/d/e", "repo/main/d/f", "repo/main/d/f/g")
    ]
    assert fs.find("repo/main", maxdepth=1) == ["repo/main/a", "repo/main/d.txt"]
    assert fs.find("repo") == files
    detailed = fs.find("repo/main", detail=True, withdirs=True)
    assert {name: info["size"] for name, info in detailed.items() if info["type"] == "file"} == {
        f"repo/main/{path}": len(body) for path, body in TREE.items()
    }
    assert all(fs.info(name) == info for name, info in detailed.items())
    assert fs.glob("lakefs://repo/main/d*") == ["repo/main/d", "repo/main/d.txt"]
    assert fs.glob("repo/main/**/g") == ["repo/main/d/f/g"]
    assert list(fs.walk("repo/main")) == [
        ("repo/main", ["d"], ["a", "d.txt"]),
        ("repo/main/d", ["f"], ["e"]),
        ("repo/main/d/f", [], ["g"]),
    ]
    assert (fs.du("repo/main"), fs.du("repo/main/d")) == (10, 5)


def test_any_ref_can_be_read(fs: SparklakeFileSystem, repo: Repository, tree: Branch) -> None:
    first = repo.create_tag("v1", "main")
    tree.put("a", b"second")
    second = tree.commit("second")
    tree.put("a", b"staged")
    refs = {
        "main": b"staged",
        "main@": b"second",
        "main$": b"staged",
        "main~1": b"1",
        "main^": b"1",
        "v1": b"1",
        second.id: b"second",
        second.id[:12]: b"second",
        f"{first.commit_id}~0": b"1",
    }
    for ref, body in refs.items():
        assert fs.cat_file(f"lakefs://repo/{ref}/a") == body, ref
        assert fs.exists(f"repo/{ref}/a")
    assert fs.find("repo/main$") == ["repo/main$/a"]
    assert fs.ls("repo/main~2", detail=False) == []


@pytest.mark.parametrize("key", ODD)
def test_unusual_names_are_used_verbatim(
    fs: SparklakeFileSystem, repo: Repository, key: str
) -> None:
    path = f"lakefs://repo/main/t/{key}"
    with fs.open(path, "wb") as file:
        file.write(key.encode())
    other = "repo/main/t/[x]y" if key == "[x]*" else "repo/main/t/x=1/y_z"
    fs.pipe(other, b"other")
    assert repo.read_bytes("main", f"t/{key}") == fs.cat_file(path) == key.encode()
    assert (fs.cat(path), fs.isfile(path), fs.info(path)["name"]) == (key.encode(), True, path[9:])
    assert sorted(fs.find("repo/main/t")) == sorted([path[9:], other])
    fs.copy(path, "repo/main/copy")
    assert fs.cat_file("repo/main/copy") == key.encode()
    fs.rm(path)
    assert fs.find("repo/main/t") == [other]


def test_a_missing_path_does_not_exist(fs: SparklakeFileSystem, tree: Branch) -> None:
    for path in (
        *("repo/main/b", "repo/main/a/b", "repo/main/dd", "repo/nothing/a", "nothing/main/a"),
        *("repo/main~9/a", "repo/nothing", "nothing", "UPPER/main", "repo/a b/c", "repo/main/../x"),
        *("repo//a", "repo/main//a", "/repo/main/a", "repo/main/" + "k" * 1025, "repo/main/\0"),
        *("repo/main$/a", "repo/v$/a", "repo/main~x/a"),
    ):
        assert not fs.exists(path), path
        assert not fs.isfile(path)
        assert not fs.isdir(path)
        for call in (fs.info, fs.ls, fs.cat_file, fs.open, fs.modified):
            with pytest.raises(FileNotFoundError):
                call(path)
    for path in ("", "repo", "repo/main", "repo/main/d"):
        with pytest.raises(FileNotFoundError):
            fs.cat_file(path)


def test_an_unreachable_store_is_an_error_not_a_missing_path(
    fs: SparklakeFileSystem, repo: Repository
) -> None:
    def failing(*_: object) -> object:
        raise RefStoreUnavailableError("away")

    with mock.patch.object(Lake, "repository", failing):
        for call in (fs.exists, fs.isfile, fs.isdir, fs.find, fs.glob, fs.ls):
            with pytest.raises(RefStoreUnavailableError):
                call("repo/main/x")
        with pytest.raises(RefStoreUnavailableError):
            list(fs.walk("repo/main"))
        with pytest.raises(RefStoreUnavailableError):
            fs.find("repo/main", maxdepth=1)


def test_directory_markers_are_not_listed(
    fs: SparklakeFileSystem, repo: Repository, main: Branch
) -> None:
    main.put("t/", b"")
    main.put("t/x", b"1")
    assert fs.find("repo/main") == ["repo/main/t/x"]
    assert fs.ls("repo/main/t", detail=False) == ["repo/main/t/x"]
    main.delete("t/x")
    assert fs.ls("repo/main/t") == []


def test_a_recreated_repository_is_visible(
    fs: SparklakeFileSystem, lake: Lake, tree: Branch, folder: Path
) -> None:
    assert fs.exists("repo/main/a")
    lake.delete_repository("repo")
    assert not fs.exists("repo/main/a")
    lake.create_repository("repo", str(folder / "new"))
    assert fs.ls("repo/main") == []
    fs.pipe("repo/main/b", b"1")
    assert fs.find("repo/main") == ["repo/main/b"]


# --- contents -------------------------------------------------------------------------------------


def test_parts_of_a_file_are_read(fs: SparklakeFileSystem, main: Branch) -> None:
    body = bytes(range(256)) * 40_000
    main.put("large", body)
    with recorded_parts() as parts:
        assert fs.cat_file("repo/main/large", 5, 10) == body[5:10]
        assert fs.cat_file("repo/main/large", -5) == body[-5:]
        assert fs.cat_file("repo/main/large", -10, -5) == body[-10:-5]
        assert fs.cat_file("repo/main/large", 7, 7) == b""
        assert fs.cat_ranges(["repo/main/large"] * 2, [0, 9], [3, 11]) == [body[:3], body[9:11]]
        assert (fs.head("repo/main/large", 4), fs.tail("repo/main/large", 4)) == (
            *(body[:4], body[-4:]),
        )
        assert sum(parts) == 5 + 5 + 5 + 3 + 2 + 4 + 4
    with recorded_parts() as parts, fs.open("repo/main/large") as file:
        file.seek(1000)
        assert file.read(24) == body[1000:1024]
        assert parts == [24]
        main.put("large", b"newer")
        file.seek(0)
        assert file.read() == body
        file.seek(5)
        make, its = file.__reduce__()
        with make(*its) as again:
            assert (again.tell(), again.size, again.read(3)) == (5, len(body), body[5:8])


def test_a_file_has_info_and_a_checksum(fs: SparklakeFileSystem, main: Branch) -> None:
    before = datetime.now(timezone.utc)
    main.put("a", b"1", {"k": "v"}, "text/x")
    info = fs.info("repo/main/a")
    assert (info["size"], info["content_type"], info["metadata"]) == (1, "text/x", {"k": "v"})
    assert abs((fs.modified("repo/main/a") - before).total_seconds()) < 60
    assert fs.created("repo/main/a") == fs.modified("repo/main/a")
    before_change = fs.checksum("repo/main/a"), fs.ukey("repo/main/a")
    assert before_change == (fs.checksum("repo/main/a"), fs.ukey("repo/main/a"))
    main.put("a", b"2")
    assert fs.checksum("repo/main/a") != before_change[0]
    assert fs.ukey("repo/main/a") != before_change[1]
    with pytest.raises(NotImplementedError):
        fs.sign("repo/main/a")


def test_a_lost_object_is_not_a_missing_path(fs: SparklakeFileSystem, main: Branch) -> None:
    Path(main.put("a", b"1").address.removeprefix("file://")).unlink()
    assert fs.exists("repo/main/a")
    with pytest.raises(MissingFileError) as raised:
        fs.cat_file("repo/main/a")
    assert not isinstance(raised.value, FileNotFoundError)
    with pytest.raises(MissingFileError):
        fs.get_mapper("repo/main").get("a")


def test_text_is_utf8_by_default(fs: SparklakeFileSystem, repo: Repository) -> None:
    fs.write_text("repo/main/t", "é\n東京")
    assert repo.read_bytes("main", "t") == "é\n東京".encode()
    assert fs.read_text("repo/main/t") == "é\n東京"
    with fs.open("repo/main/t", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("é\n")
    assert repo.read_bytes("main", "t") == b"\xe9\r\n"


# --- writing --------------------------------------------------------------------------------------


def test_writes_are_staged(fs: SparklakeFileSystem, repo: Repository, tree: Branch) -> None:
    fs.pipe("lakefs://repo/main/a", b"new")
    fs.touch("repo/main/empty")
    with fsspec.core.OpenFile(fs, "repo/main/opened", "wb") as file:
        file.write(b"o")
    assert repo.diff_uncommitted("main").to_arrow()["path"].to_pylist() == [
        *("a", "empty", "opened")
    ]
    assert contents(repo, "main@") == TREE
    assert contents(repo, "main") == TREE | {"a": b"new", "empty": b"", "opened": b"o"}


def write_and_fail(file: IO[Any], body: str | bytes) -> None:
    file.write(body)
    raise KeyError


def test_a_failed_write_stages_nothing(fs: SparklakeFileSystem, main: Branch) -> None:
    for mode in ("wb", "w"):
        with pytest.raises(KeyError), fs.open("repo/main/x", mode) as file:
            write_and_fail(file, b"1" if mode == "wb" else "1")
    assert not main.is_dirty
    with pytest.raises(InvalidInputError, match="mode"):
        fs.open("repo/main/x", "r+b")
    for mode in ("ab", "a"):
        with pytest.raises(NotImplementedError, match="cannot append"):
            fs.open("repo/main/x", mode)
    with pytest.raises(InvalidInputError, match="compress"):
        fs.open("repo/main/x", "wb", compression="gzip")
    assert not main.is_dirty


def test_only_branches_can_be_written(
    fs: SparklakeFileSystem, repo: Repository, tree: Branch, tmp_path: Path
) -> None:
    repo.create_tag("v1", "main")
    (tmp_path / "x").write_bytes(b"1")
    for ref in ("v1", "main@", "main~0", "main$", tree.head.id):
        path = f"repo/{ref}/a"
        for call in (
            lambda path: fs.open(path, "wb"),
            lambda path: fs.pipe(path, b""),
            lambda path: fs.pipe({path: b""}),
            lambda path: fs.put(str(tmp_path / "x"), path),
            fs.touch,
            lambda path: fs.copy("repo/main/a", path),
        ):
            with pytest.raises(ImmutableRefError, match="write to a branch") as raised:
                call(path)
            assert isinstance(raised.value, PermissionError)
    for call in (fs.rm, fs.rm_file, lambda path: fs.mv(path, "repo/main/b")):
        with pytest.raises(ImmutableRefError):
            call("repo/v1/a")
    with pytest.raises(ImmutableRefError):
        fs.rm("repo/v1/d", recursive=True)
    for path in ("repo/nothing/a", "nothing/main/a"):
        with pytest.raises(FileNotFoundError):
            fs.open(path, "wb")
    for path in ("repo/main", "repo", ""):
        with pytest.raises(InvalidUriError):
            fs.open(path, "wb")
        with pytest.raises((InvalidUriError, IsADirectoryError)):
            fs.rm(path)
    for path in ("repo", ""):
        with pytest.raises(InvalidUriError):
            fs.rm(path, recursive=True)
    repo.settings.protect("main", block=["stage"])
    with pytest.raises(ProtectedError):
        fs.open("repo/main/a", "wb")
    assert not tree.is_dirty


def test_a_folder_is_uploaded_and_downloaded(
    fs: SparklakeFileSystem, repo: Repository, main: Branch, tmp_path: Path
) -> None:
    for path, body in TREE.items():
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).write_bytes(body)
    fs.put(f"{tmp_path}/in/", "lakefs://repo/main/t", recursive=True)
    assert [each.kind for each in main.state.layers] == [LayerKind.ROWS]
    assert contents(repo, "main") == {f"t/{path}": body for path, body in TREE.items()}
    fs.get("lakefs://repo/main/t/", f"{tmp_path}/out", recursive=True)
    got = {path: (tmp_path / "out" / path).read_bytes() for path in TREE}
    assert got == TREE
    (tmp_path / "out" / "a").write_bytes(b"the user's own")
    assert fs.cat_file("repo/main/t/a") == b"1"
    fs.pipe({"repo/main/p/1": b"1", "lakefs://repo/main/p/2": b"2"})
    assert fs.cat(["repo/main/p/1", "repo/main/p/2"]) == {
        "repo/main/p/1": b"1",
        "repo/main/p/2": b"2",
    }


def test_a_copy_copies_no_bytes(fs: SparklakeFileSystem, repo: Repository, tree: Branch) -> None:
    repo.create_branch("dev", "main")
    fs.copy("repo/main/d", "repo/dev/x/", recursive=True)
    assert paths(repo, "dev$") == ["x/d/e", "x/d/f/g"]
    assert repo.stat("dev", "x/d/e").address == repo.stat("main", "d/e").address
    fs.cp_file("repo/main~0/a", "repo/dev/a2")
    assert fs.cat_file("repo/dev/a2") == b"1"
    with pytest.raises(FileNotFoundError):
        fs.copy("repo/main/nothing", "repo/dev/y")
    with pytest.raises(InvalidUriError, match="different repositories"):
        fs.copy("repo/main/a", "other/main/a")


def test_files_and_folders_are_moved(
    fs: SparklakeFileSystem, repo: Repository, tree: Branch
) -> None:
    fs.mv("repo/main/d", "repo/main/e", recursive=True)
    assert paths(repo, "main") == ["a", "d.txt", "e/e", "e/f/g"]
    fs.mv("repo/main/a", "repo/main/b")
    fs.mv("lakefs://repo/main/b", "repo/main/b")
    fs.mv("repo/main/e/e", "repo/main/e/")
    assert contents(repo, "main") == {"b": b"1", "d.txt": b"4444", "e/e": b"22", "e/f/g": b"333"}
    with pytest.raises(IsADirectoryError, match="move it recursively"):
        fs.mv("repo/main/e", "repo/main/g")
    with pytest.raises(InvalidInputError, match="overlap"):
        fs.mv("repo/main/e", "repo/main/e/e", recursive=True)
    fs.mv("repo/main/e", "repo/main/e/f", recursive=True)
    assert sorted(contents(repo, "main").values()) == sorted(TREE.values())
    with pytest.raises(FileNotFoundError):
        fs.mv("repo/main/nothing", "repo/main/y")


def test_files_and_folders_are_removed(
    fs: SparklakeFileSystem, repo: Repository, tree: Branch
) -> None:
    with pytest.raises(IsADirectoryError):
        fs.rm("repo/main/d")
    for recursive in (True, False):
        with pytest.raises(FileNotFoundError):
            fs.rm("repo/main/nothing", recursive=recursive)
    with pytest.raises(FileNotFoundError):
        fs.rm_file("repo/main/nothing")
    assert not tree.is_dirty
    fs.pipe("repo/main/d", b"an object, too")
    fs.rm("repo/main/d", recursive=True)
    assert paths(repo, "main") == ["a", "d.txt"]
    fs.rm(["repo/main/a", "repo/main/d*"])
    assert fs.ls("repo/main") == []
    tree.reset()
    fs.rm("repo/main/d", recursive=True, maxdepth=1)
    assert paths(repo, "main") == ["a", "d.txt", "d/f/g"]
    fs.rm("repo/main", recursive=True)
    assert paths(repo, "main") == []
    assert contents(repo, "main@") == TREE


def test_concurrent_writers_all_succeed(lake: Lake, repo: Repository) -> None:
    def write(number: int) -> None:
        fs = SparklakeFileSystem(lake=lake)
        with fs.open(f"repo/main/{number % 12}/{number}", "wb") as file:
            file.write(b"%d" % number)
        assert fs.cat_file(f"repo/main/{number % 12}/{number}") == b"%d" % number
        assert f"repo/main/{number % 12}/{number}" in fs.find("repo/main")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(48)))
    assert contents(repo, "main") == {f"{each % 12}/{each}": b"%d" % each for each in range(48)}


# --- transactions ---------------------------------------------------------------------------------


def test_a_transaction_stages_its_writes_together(
    fs: SparklakeFileSystem, repo: Repository, tree: Branch, tmp_path: Path
) -> None:
    dev = repo.create_branch("dev", "main")
    (tmp_path / "file").write_bytes(b"put")
    with fs.transaction:
        with fs.open("repo/main/a", "wb") as file:
            file.write(b"first")
        with fs.open("repo/main/a", "w") as text:
            text.write("second")
        fs.pipe({"repo/main/b": b"b", "repo/dev/c": b"c"})
        fs.put(str(tmp_path / "file"), "repo/main/put")
        with pytest.raises(KeyError), fs.open("repo/main/dropped", "wb"):
            raise KeyError
        assert not tree.is_dirty
        assert not dev.is_dirty
    assert contents(repo, "main$") == {"a": b"second", "b": b"b", "put": b"put"}
    assert contents(repo, "dev$") == {"c": b"c"}
    fs.pipe("repo/main/later", b"1")
    assert fs.exists("repo/main/later")


def test_a_failed_transaction_stages_nothing(
    fs: SparklakeFileSystem, repo: Repository, tree: Branch
) -> None:
    def write(then: Callable[[], object]) -> None:
        with fs.transaction:
            fs.pipe("repo/main/b", b"b")
            fs.open("repo/main/c", "wb").write(b"c")
            then()

    with pytest.raises(ZeroDivisionError):
        write(lambda: 1 // 0)
    with pytest.raises(ProtectedError):
        write(lambda: repo.settings.protect("main", block=["stage"]))
    repo.settings.unprotect("main")
    assert not tree.is_dirty
    fs.start_transaction()
    fs.pipe("repo/main/b", b"b")
    assert not tree.is_dirty
    fs.end_transaction()
    assert contents(repo, "main$") == {"b": b"b"}


# --- options --------------------------------------------------------------------------------------

SECRET = "s3cr3t-pässword"
DSN = "postgresql://joe:s3cr3t-p%C3%A4ssword@127.0.0.1:9/lake"


@pytest.fixture
def remote() -> Iterator[SparklakeFileSystem]:
    yield SparklakeFileSystem(dsn=DSN)
    SparklakeFileSystem.clear_instance_cache()


def test_secrets_are_not_shown(remote: SparklakeFileSystem) -> None:
    texts = [
        repr(remote),
        str(remote),
        remote.to_json(),
        json.dumps(remote.to_dict(include_password=True)),
        str(pickle.dumps(remote)),
        remote._fs_token,
        repr(remote._options),
    ]
    with pytest.raises(RefStoreUnavailableError) as raised:
        remote.ls("repo")
    for text in (*texts, str(raised.value)):
        assert "s3cr3t" not in text
    assert "127.0.0.1" in repr(remote)
    assert SECRET not in repr(fsspec.filesystem("lakefs", dsn=f"host=x password='{SECRET}'"))
    with pytest.raises(InvalidInputError, match="DSN") as wrong:
        SparklakeFileSystem(dsn="postgresql://joe:a@b@c/lake")
    assert "joe" not in str(wrong.value)


def test_a_pickle_opens_the_same_lake(remote: SparklakeFileSystem) -> None:
    again = pickle.loads(pickle.dumps(remote))
    assert repr(again) == repr(remote)
    assert json.loads(again.to_json()) == json.loads(remote.to_json())
    assert fsspec.AbstractFileSystem.from_json(again.to_json()) == again
    with mock.patch("sparklake.fs.lakes.connect") as connect:
        again.lake  # noqa: B018
    # In this process the whole connection string is known.
    assert connect.call_args.args[1] == DSN


def test_a_file_system_with_an_open_lake_cannot_be_pickled(
    fs: SparklakeFileSystem, lake: Lake
) -> None:
    for call in (pickle.dumps, SparklakeFileSystem.to_json):
        with pytest.raises(InvalidInputError, match="SPARKLAKE_DSN"):
            call(fs)
    assert repr(fs) == "SparklakeFileSystem(an open lake)"
    with pytest.raises(InvalidInputError, match="choose either"):
        SparklakeFileSystem(lake=lake, home="x")
    with pytest.raises(InvalidInputError, match="is not an engine"):
        SparklakeFileSystem(engine="dask").ls("")
    with pytest.raises(ObjectNotFoundError):
        fs.expand_path("repo/main/nothing*")
