"""Many objects put in one call, and folders: all of them are staged, or none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from unittest import mock

import pytest

from sparklake import Branch, Repository
from sparklake.errors import (
    InvalidInputError,
    InvalidKeyError,
    InvalidRowsError,
    ProtectedError,
    RefNotFoundError,
    StoreError,
)
from sparklake.graveler.ports import LayerKind
from sparklake.stores.objects.local import walk as walking
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import contents, memory_lake
from sparklake.verbs.objects import upload as uploads
from sparklake.verbs.objects.upload import FolderUpload
from tests.support.lakes import refused

ODD = ("a b", "100%", "x=1/y?z", "a#b", "東京/🦆", "'q\"", "dir//x")


def test_many_are_staged_at_once(repo: Repository, main: Branch) -> None:
    bodies = {f"p/{number:03}": b"%d" % number for number in range(300)}
    bodies |= {path: path.encode() for path in ODD}
    assert main.put_many(bodies, {"from": "x"}, "text/csv") == len(bodies)
    assert contents(repo, "main") == bodies
    assert [each.kind for each in main.state.layers] == [LayerKind.ROWS]
    found = repo.stat("main", "a b")
    assert (found.metadata, found.content_type) == ({"from": "x"}, "text/csv")
    assert found.checksum == main.put("other", b"a b").checksum
    main.commit("all")
    assert contents(repo, "main@") == bodies | {"other": b"a b"}


def test_what_is_put_replaces_what_is_there(repo: Repository, main: Branch) -> None:
    main.put_many({"a": b"1", "b": b"1"})
    main.commit("first")
    assert main.put_many([("b", b"2"), ("c", b"2")]) == 2
    assert contents(repo, "main") == {"a": b"1", "b": b"2", "c": b"2"}


def test_nothing_is_put(main: Branch) -> None:
    assert main.put_many({}) == main.put_many(iter(())) == 0
    assert not main.is_dirty


def test_files_are_copied(repo: Repository, main: Branch, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"small")
    large.write_bytes(b"0123456789" * 300_000)
    bodies = {"s": small, "l": large, "l2": large, "b": b"bytes"}
    assert main.put_many(bodies) == 4
    small.write_bytes(b"other")
    with large.open("r+b") as file:
        file.write(b"other")
    whole = b"0123456789" * 300_000
    assert contents(repo, "main") == {"s": b"small", "l": whole, "l2": whole, "b": b"bytes"}


def test_very_many_are_staged_as_one_run(folder: Path) -> None:
    repo = memory_lake().create_repository("many", str(folder / "namespace"))
    main = repo.branch("main")
    with (
        mock.patch.object(uploads, "INLINE_ROWS", 500),
        mock.patch.object(uploads, "_TOGETHER", 64),
    ):
        pairs = ((f"p/{number % 10}/{number}", b"%d" % number) for number in range(2000))
        assert main.put_many(pairs, {"k": "v"}) == 2000
        assert [each.kind for each in main.state.layers] == [LayerKind.RUN]
        for twice, words in ((7, "'q/7' is put twice"), (700, "occurs twice")):
            numbers = chain(range(900), [twice])
            with pytest.raises(InvalidRowsError, match=words):
                main.put_many((f"q/{number}", b"") for number in numbers)
    expected = {f"p/{number % 10}/{number}": b"%d" % number for number in range(2000)}
    assert contents(repo, "main") == expected
    assert repo.stat("main", "p/0/0").metadata == {"k": "v"}


def test_bodies_are_written_in_batches_as_they_come(folder: Path) -> None:
    repo = memory_lake().create_repository("many", str(folder / "namespace"))
    taken, written = 0, []
    put_many = LocalStore.put_many_if_absent

    def noting(store: LocalStore, bodies: dict[str, bytes]) -> object:
        if bodies:
            written.append((taken, len(bodies)))
        return put_many(store, bodies)

    def pairs() -> Iterator[tuple[str, bytes]]:
        nonlocal taken
        for number in range(2500):
            taken = number + 1
            yield f"{number}", b"x"
        for number in range(3):
            taken += 1
            yield f"large/{number}", bytes(40 << 20)

    with mock.patch.object(LocalStore, "put_many_if_absent", noting):
        assert repo.branch("main").put_many(pairs()) == 2503
    assert written == [(1001, 1000), (2001, 1000), (2502, 501), (2503, 1), (2503, 1)]


@pytest.mark.parametrize(
    ("pairs", "error", "words"),
    [
        ([("a", b"1"), ("b", b""), ("a", b"2")], InvalidRowsError, "'a' is put twice"),
        ([("a", b"1"), ("", b"")], InvalidKeyError, "empty"),
        ([("a", b"1"), ("/b", b"")], InvalidKeyError, "root"),
        ([("a", b"1"), ("b", "text")], InvalidInputError, "use bytes, or the Path"),
        ([("a", b"1"), ("b", Path("no-such-file"))], InvalidInputError, "is not a file"),
        ([("a", b"1"), ("b", Path("/"))], InvalidInputError, "is not a file"),
    ],
)
def test_what_cannot_be_put_stages_nothing(
    folder: Path, pairs: list[tuple[str, bytes]], error: type[InvalidInputError], words: str
) -> None:
    lake = memory_lake()
    main = lake.create_repository("small", str(folder / "namespace")).branch("main")
    with refused(lake, error, words):
        main.put_many(pairs)


def test_an_iterable_that_fails_half_way_stages_nothing(repo: Repository, main: Branch) -> None:
    def pairs() -> Iterator[tuple[str, bytes]]:
        for number in range(1500):
            yield f"{number}", b""
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        main.put_many(pairs())
    assert not main.is_dirty


def test_a_store_that_fails_stages_nothing(repo: Repository, main: Branch) -> None:
    def failing(store: LocalStore, bodies: object) -> object:
        raise StoreError("full")

    with (
        mock.patch.object(LocalStore, "put_many_if_absent", failing),
        pytest.raises(StoreError, match="full"),
    ):
        main.put_many({"a": b""})
    assert not main.is_dirty


def test_a_branch_may_refuse_it(repo: Repository, main: Branch) -> None:
    repo.settings.protect("main", block=["stage"])
    taken = iter([("a", b"")])
    with pytest.raises(ProtectedError):
        main.put_many(taken)
    assert list(taken) == [("a", b"")]
    with pytest.raises(RefNotFoundError):
        Branch(repo._context, "gone").put_many({"a": b""})


# --- folders --------------------------------------------------------------------------------------


def tree(root: Path) -> dict[str, bytes]:
    bodies = {"x": b"1", "d/e/f": b"22", "d/g h%?": b"", "東京": b"4"}
    for path, body in bodies.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(body)
    return bodies


@pytest.mark.parametrize("prefix", ["", "below", "below/", "a b/c"])
def test_a_folder_is_put_under_a_prefix(
    repo: Repository, main: Branch, tmp_path: Path, prefix: str
) -> None:
    bodies = tree(tmp_path / "data")
    assert main.put_folder(prefix, tmp_path / "data") == FolderUpload(len(bodies))
    below = f"{prefix.rstrip('/')}/" if prefix else ""
    assert contents(repo, "main") == {f"{below}{path}": body for path, body in bodies.items()}


def test_what_is_no_folder_of_the_users_is_refused(folder: Path, tmp_path: Path) -> None:
    lake = memory_lake()
    main = lake.create_repository("small", str(folder / "namespace")).branch("main")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for given, words in [
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "gone", "is not a folder"),
        (tmp_path / "empty", "contains no files"),
        (folder, "overlaps"),
        (folder / "namespace" / "_lakefs", "overlaps"),
    ]:
        with refused(lake, InvalidInputError, words):
            main.put_folder("", given)


def test_links_among_many_objects_are_followed_only_on_request(
    repo: Repository, main: Branch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    paths = {"a": tmp_path / "file", "b": tmp_path / "link"}
    with pytest.raises(InvalidInputError, match="'b', is a symbolic link"):
        main.put_many(paths)
    assert contents(repo, "main") == {}
    assert main.put_many(paths, follow_links=True) == 2
    assert contents(repo, "main") == {"a": b"1", "b": b"1"}


def test_devices_are_no_files() -> None:
    looked_at = walking._look_at(Path("/dev/null"), follow_links=False)
    assert looked_at is walking.SkipReason.DEVICE
