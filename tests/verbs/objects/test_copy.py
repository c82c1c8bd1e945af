"""Moves and copies of objects and folders, against plain dicts, and what a failure leaves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidKeyError,
    ObjectNotFoundError,
    RaceLostError,
    RefNotFoundError,
    SparklakeError,
)
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.blocks.edit import renamed, tombstones
from sparklake.graveler.records import decode_record, encode_record, tombstone
from sparklake.rows.objects import ObjectInfo
from sparklake.testing.lakes import commit_all, contents
from sparklake.testing.memory import MemoryStaging
from tests.support.lakes import paths, stage_sizes
from tests.support.seeds import seeds

Tree = dict[str, bytes]
OBJECTS: Tree = {f"a/{number:03}": b"%d" % number for number in range(60)}


@pytest.fixture
def main(main: Branch) -> Branch:
    commit_all(main, {**OBJECTS, "a": b"object", "ab": b"ab", "a!": b"a!", "z": b"z"}, "base")
    return main


def infos(repo: Repository, ref: str, prefix: str) -> list[ObjectInfo]:
    return [*repo.objects(ref, prefix)]


# --- what moves -----------------------------------------------------------------------------------


def test_a_folder_moves_and_nothing_beside_it(repo: Repository, main: Branch) -> None:
    before, head = infos(repo, "main", "a/"), main.head
    assert main.move("a/", "b/c/") == 60
    assert main.head == head
    moved = {f"b/c/{path[2:]}": body for path, body in OBJECTS.items()}
    expected = {**moved, "a": b"object", "ab": b"ab", "a!": b"a!", "z": b"z"}
    assert contents(repo, "main") == expected
    assert contents(repo, "main@").keys() >= OBJECTS.keys()
    after = infos(repo, "main", "b/c/")
    for old, new in zip(before, after, strict=True):
        assert new.path == f"b/c/{old.path[2:]}"
        kept = (old.address, old.checksum, old.size, old.mtime, old.metadata, old.content_type)
        assert kept == (
            *(new.address, new.checksum, new.size, new.mtime, new.metadata, new.content_type),
        )
    main.commit("moved")
    assert contents(repo, "main") == expected
    assert len([*repo.diff("main~1", "main")]) == 120
    # The tree is that of the same objects put anew: their ids are those of their new keys.
    other = repo.create_branch("other", head.id)
    commit_all(other, {**dict.fromkeys(OBJECTS), **moved}, "put anew")
    assert repo.resolve("other").meta_range_id == repo.resolve("main").meta_range_id


def test_an_object_moves(repo: Repository, main: Branch) -> None:
    assert main.move("a", "b") == 1
    assert main.move("a/007", "c/") == 1
    assert main.move("z", "z/z") == 1
    found = contents(repo, "main")
    assert (found["b"], found["c/007"], found["z/z"]) == (b"object", b"7", b"z")
    assert found.keys() == {*OBJECTS, "ab", "a!", "b", "c/007", "z/z"} - {"a/007"}


def test_recursively_an_object_moves_with_the_folder_of_its_name(
    repo: Repository, main: Branch
) -> None:
    assert main.move("a", "n", recursive=True) == 61
    moved = {f"n{path[1:]}": body for path, body in {**OBJECTS, "a": b"object"}.items()}
    assert contents(repo, "main") == {**moved, "ab": b"ab", "a!": b"a!", "z": b"z"}
    assert main.move("n", "in/", recursive=True) == 61
    assert {path.removeprefix("in/") for path in paths(repo, "main", "in/")} == {*moved}


def test_what_is_staged_counts(repo: Repository, main: Branch) -> None:
    main.put("a/new", b"new")
    main.delete("a/000")
    stage_sizes(main, {"a/run": 3, "a/001": None})
    assert main.move("a/", "b/") == 60
    expected = {f"b/{path[2:]}" for path in OBJECTS} - {"b/000", "b/001"} | {"b/new", "b/run"}
    assert {*paths(repo, "main", "b/")} == expected
    assert paths(repo, "main", "a/") == []
    assert main.move("b/", "a/") == 60
    assert {*paths(repo, "main", "a/")} == {f"a/{path[2:]}" for path in expected}


def test_a_copy_is_of_any_ref(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    dev.put("a/staged", b"staged")
    assert main.copy("a/", "copy/", "dev") == 61
    assert main.copy("a/", "copy2", "dev@") == 60
    assert main.copy("a", "one") == 1
    assert main.copy("", "all/", "main@") == 64
    assert main.copy("a/", "a/in/a/") == 60
    assert repo.read_bytes("main", "copy/staged") == b"staged"
    assert len(paths(repo, "main", "copy2/")) == 60
    assert len(paths(repo, "main", "a/")) == 120
    assert repo.read_bytes("main", "all/a") == repo.read_bytes("main", "one") == b"object"
    assert contents(repo, "dev").keys() == {*OBJECTS, "a", "ab", "a!", "z", "a/staged"}


def test_a_copy_of_what_was_brings_it_back(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a/003": None, "a/004": b"changed"}, "changed")
    with pytest.raises(AlreadyExistsError, match="'a/000' already"):
        main.copy("a/", "a/", "main~1")
    assert not main.is_dirty
    assert main.copy("a/", "a/", "main~1", force=True) == 60
    assert contents(repo, "main").items() >= OBJECTS.items()


def test_what_is_there_is_overwritten_by_force_alone(repo: Repository, main: Branch) -> None:
    commit_all(main, {"b/007": b"mine", "b/own": b"own", "c": b"c"}, "b")
    for source, dest, taken in (("a/", "b/", "b/007"), ("a", "c", "c"), ("a/001", "b/own", "own")):
        with pytest.raises(AlreadyExistsError, match=f"{taken}' already"):
            main.move(source, dest)
        with pytest.raises(AlreadyExistsError, match=f"{taken}' already"):
            main.copy(source, dest)
    main.put("d/059", b"staged")
    with pytest.raises(AlreadyExistsError, match="d/059"):
        main.move("a/", "d/")
    assert main.move("a/", "b/", force=True) == 60
    found = contents(repo, "main")
    assert (found["b/007"], found["b/own"], found["d/059"]) == (b"7", b"own", b"staged")
    main.delete("d/059")
    assert main.move("b/", "d/") == 61


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words", "source", "dest"),
    [
        (ObjectNotFoundError, "no object at 'nothing/'", "nothing/", "b/"),
        (ObjectNotFoundError, "no object at 'nothing'", "nothing", "b"),
        (ObjectNotFoundError, "no object at 'a/0'", "a/0", "b"),
        (InvalidKeyError, "has 1025 bytes", "a/", f"{'x' * 1024}/"),
        (InvalidKeyError, "with 1026 bytes", "a/", f"{'x' * 1022}/"),
        (InvalidKeyError, "at most 1024", "a", "x" * 1025),
        (InvalidKeyError, "root", "a/", "../"),
        (ObjectNotFoundError, "no object at '/a'", "/a", "b"),
        (InvalidKeyError, "with 0 bytes", "slash/", ""),
        (InvalidKeyError, "'/deep'", "deep/", ""),
    ],
)
def test_what_cannot_be_is_refused(
    repo: Repository, main: Branch, error: type[SparklakeError], words: str, source: str, dest: str
) -> None:
    commit_all(main, {"slash/": b"", "deep//deep": b"deep"}, "odd")
    before = contents(repo, "main")
    for verb in (main.copy, main.move) if dest else (main.copy,):
        with pytest.raises(error, match=words):
            verb(source, dest)
    assert not main.is_dirty
    assert contents(repo, "main") == before


@pytest.mark.parametrize(
    ("source", "dest", "recursive"),
    [
        ("a/", "a/", False),
        ("a/", "a", False),
        ("a/", "a/b/", False),
        ("a/0/", "a/", False),
        ("a/", "", False),
        ("", "b/", False),
        ("a", "a", False),
        ("a", "a/b", True),
        ("a/b", "a", True),
    ],
)
def test_a_move_into_itself_is_refused(
    main: Branch, source: str, dest: str, recursive: bool
) -> None:
    with pytest.raises(InvalidInputError, match="one contains the other"):
        main.move(source, dest, recursive)
    assert not main.is_dirty


def test_refs_that_are_not_there(repo: Repository, main: Branch) -> None:
    gone = repo.create_branch("gone", "main")
    repo.delete_branch("gone")
    for verb in (
        lambda: gone.move("a/", "b/"),
        lambda: gone.copy("a/", "b/"),
        lambda: main.copy("a/", "b/", "nothing"),
    ):
        with pytest.raises(RefNotFoundError):
            verb()
    assert not main.is_dirty


# --- who comes between ----------------------------------------------------------------------------


def test_a_change_that_comes_between_is_moved_too(
    small_lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)
    main, add_run, late = repo.branch("main"), MemoryStaging.add_run, [2]
    commit_all(main, dict(OBJECTS), "base")

    def interrupted(staging: MemoryStaging, *arguments: object, **options: object) -> object:
        if late[0]:
            late[0] -= 1
            main.put(f"a/late-{late[0]}", b"late")
        return add_run(staging, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStaging, "add_run", interrupted)
    assert main.move("a/", "b/") == 62
    assert {*paths(repo, "main")} == {f"b/{path[2:]}" for path in OBJECTS} | {
        "b/late-0",
        "b/late-1",
    }
    late[0] = 1_000
    with pytest.raises(RaceLostError):
        main.copy("b/", "c/")
    late[0] = 0
    assert paths(repo, "main", "c/") == []


# --- the model ------------------------------------------------------------------------------------


def model(tree: Tree, source: str, dest: str, here: Tree, *, removing: bool, force: bool) -> Tree:
    """Return what a transfer makes of `here`; raise what the verbs raise."""
    folder = source.endswith("/") or not source
    if removing and (
        source == dest or (folder and (source.startswith(dest) or dest.startswith(source)))
    ):
        raise InvalidInputError
    old = {path for path in tree if (path.startswith(source) if folder else path == source)}
    moved = {dest + path[len(source) :]: tree[path] for path in old}
    if not old:
        raise ObjectNotFoundError
    if not force and moved.keys() & here.keys():
        raise AlreadyExistsError
    kept = {path: body for path, body in here.items() if not (removing and path in old)}
    return {**kept, **moved}


@pytest.mark.parametrize("seed", seeds(4, always=2))
def test_random_transfers_as_dicts_would(repo: Repository, seed: int) -> None:
    chance = random.Random(seed)
    names = [
        f"{one}{two}{three}"
        for one in ("a/", "b/", "ab", "")
        for two in ("", "a/", "b/")
        for three in "abc"
    ]
    folders = ["a/", "b/", "a/a/", "a/b/", "b/a/", "c/"]
    main, done = repo.branch("main"), 0
    tree: Tree = {name: name.encode() for name in chance.sample(names, 20)}
    commits = [(commit_all(main, dict(tree), "base").id, dict(tree))]
    for step in range(20):
        if chance.random() < 0.3:
            path = chance.choice(names)
            changes = {path: chance.choice([None, b"%d" % step])}
            for each, body in changes.items():
                if body is None:
                    main.delete(each)
                    tree.pop(each, None)
                else:
                    main.put(each, body)
                    tree[each] = body
        if chance.random() < 0.2 and main.is_dirty:
            commits.append((main.commit("step", allow_empty=True).id, dict(tree)))
        is_folder, force, removing = (chance.random() < 0.5 for _ in range(3))
        source, dest = chance.sample(folders if is_folder else names, 2)
        ref, there = (
            chance.choice(commits) if not removing and chance.random() < 0.5 else (None, tree)
        )
        try:
            expected = model(there, source, dest, tree, removing=removing, force=force)
        except SparklakeError as error:
            with pytest.raises(type(error)):
                main.move(source, dest, force=force) if removing else main.copy(
                    source, dest, ref, force=force
                )
        else:
            done += 1
            if removing:
                main.move(source, dest, force=force)
            else:
                main.copy(source, dest, ref, force=force)
            tree = expected
        assert paths(repo, "main") == sorted(tree, key=str.encode)
    assert contents(repo, "main") == tree
    assert done > 3


def test_renamed_records_are_those_of_their_new_keys() -> None:
    chance = random.Random(5)
    keys = sorted({b"old/" + chance.randbytes(chance.randint(0, 60)) for _ in range(3_000)})
    values = [
        (chance.randbytes(chance.choice((1, 32, 63, 64, 127, 128, 255))), chance.randbytes(9))
        for _ in keys
    ]
    block = block_of_records(
        [encode_record(key, *pair) for key, pair in zip(keys, values, strict=True)]
    )
    found = renamed(block, 4, b"somewhere/new/")
    expected = [
        encode_record(b"somewhere/new/" + key[4:], *pair)
        for key, pair in zip(keys, values, strict=True)
    ]
    assert found.records() == expected
    assert [decode_record(*each).identity for each in found.records()] == [
        each[0] for each in values
    ]
    assert tombstones(block).records() == [tombstone(key) for key in keys]
    assert renamed(block.slice(0, 0), 4, b"x/").records() == []
