"""Exports: a plain folder holds what a commit does, whatever was there and whatever dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.csv
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Lake, Repository
from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    MissingFileError,
    RaceLostError,
    RefNotFoundError,
    UnsupportedNamesError,
)
from sparklake.stores.objects.local.destination import LocalDestination
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, contents, memory_lake, stage_table
from sparklake.udfs.exports import EXPORT_MARKER_KEY
from tests.support.crashes import CrashError, dies_at

TREE = {"a": b"1", "t/x=1/é b%.csv": b"22", "t/x=2/c": b"", "u/d": b"4444"}


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    made = small_lake.create_repository("lake", str(folder / "namespace"), range_records=2)
    commit_all(made.branch("main"), dict(TREE), "first")
    return made


def tree_of(folder: Path) -> dict[str, bytes]:
    """Return what users see of an export."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and path.relative_to(folder).parts[0]
        not in (EXPORT_MARKER_KEY, "_manifest", ".sparklake-tmp")
    }


def rows_of(folder: Path) -> list[dict[str, Any]]:
    found = pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: str(row["path"]))


def test_a_commit_becomes_a_folder(repo: Repository, folder: Path) -> None:
    made = repo.export("main", str(folder / "out"))
    assert tree_of(folder / "out") == TREE
    assert (made.added, made.changed, made.removed, made.size) == (4, 0, 0, 7)
    assert not (folder / "out" / ".sparklake-tmp").exists()
    rows = rows_of(Path(made.manifest.removeprefix("file://")))
    infos = list(repo.objects("main"))
    assert [(row["path"], row["size"], row["checksum"], row["address"]) for row in rows] == [
        (each.path, each.size, each.checksum, each.address) for each in infos
    ]
    assert {(row["type"], row["commit"]) for row in rows} == {("added", made.commit)}
    summary = json.loads((folder / "out/_manifest" / made.commit / "_summary.json").read_bytes())
    assert (summary["added"], summary["size"]) == (4, 7)


def test_what_is_exported_may_be_edited(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    (folder / "out" / "a").write_bytes(b"edited in place")
    assert contents(repo, "main") == TREE


def test_a_prefix_keeps_its_paths(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"), prefix="t/")
    assert tree_of(folder / "out") == {path: TREE[path] for path in TREE if path[0] == "t"}


def test_staged_changes_are_left_out_and_that_is_said(repo: Repository, folder: Path) -> None:
    repo.branch("main").put("staged", b"staged")
    assert repo.export("main", str(folder / "out")).dirty
    assert tree_of(folder / "out") == TREE
    assert not repo.export("main@", str(folder / "other")).dirty


def test_a_dry_run_writes_nothing(repo: Repository, folder: Path) -> None:
    said = repo.export("main", str(folder / "out"), dry_run=True)
    assert (said.added, said.size, said.dry_run) == (4, 7, True)
    assert not (folder / "out").exists()


def test_only_changes_are_copied(repo: Repository, folder: Path) -> None:
    out, main = folder / "out", repo.branch("main")
    repo.export("main", str(out), incremental=True)
    untouched = (out / "a").stat().st_ino
    commit_all(main, {"u/d": None, "u/d/e": b"5", "t/x=2/c": b"now"}, "second")
    made = repo.export("main", str(out), incremental=True)
    assert (made.added, made.changed, made.removed) == (1, 1, 1)
    assert tree_of(out) == contents(repo, "main")
    assert (out / "a").stat().st_ino == untouched
    again = repo.export("main", str(out), incremental=True)
    assert (again.added, again.changed, again.removed) == (0, 0, 0)


def test_the_change_between_two_refs(repo: Repository, folder: Path) -> None:
    first = repo.resolve("main").id
    commit_all(repo.branch("main"), {"a": None, "b": b"new"}, "second")
    made = repo.export("main", str(folder / "out"), since=first)
    assert tree_of(folder / "out") == {"b": b"new"}
    assert (made.since, made.removed) == (first, 1)


def test_what_is_gone_may_stay(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    commit_all(repo.branch("main"), {"a": None, "b": b"new"}, "second")
    repo.export("main", str(folder / "out"), incremental=True, keep_removed=True)
    assert tree_of(folder / "out") == {**TREE, "b": b"new"}


def test_folders_that_are_empty_go(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    commit_all(repo.branch("main"), {"t/x=1/é b%.csv": None, "t/x=2/c": None, "t": b"file"}, "2")
    repo.export("main", str(folder / "out"), incremental=True)
    assert tree_of(folder / "out") == contents(repo, "main")


def test_places_that_are_refused(repo: Repository, small_lake: Lake, folder: Path) -> None:
    other = small_lake.create_repository("other", str(folder / "elsewhere"))
    full = folder / "full"
    full.mkdir()
    (full / "file").write_bytes(b"mine")
    repo.export("main", str(folder / "out"), prefix="t/")
    refused: list[Callable[[], object]] = [
        lambda: repo.export("main", str(folder)),
        lambda: repo.export("main", str(folder / "namespace" / "inside")),
        lambda: repo.export("main", str(folder / "elsewhere"), overwrite=True),
        lambda: repo.export("main", str(full)),
        lambda: repo.export("main", str(full), incremental=True),
        lambda: repo.manifest("main", str(full)),
        lambda: repo.export("main", str(folder / "out"), incremental=True),
        lambda: other.export("main", str(folder / "out"), prefix="t/", incremental=True),
        lambda: repo.export("main", str(folder / "new"), since="main", incremental=True),
        lambda: repo.export("main", str(folder / "new"), manifest_format="xml"),
        lambda: repo.export("main", "ftp://host/x"),
    ]
    for each in refused:
        with pytest.raises(InvalidInputError):
            each()
    with pytest.raises(RefNotFoundError):
        repo.export("nothing", str(folder / "new"))
    assert not (folder / "new").exists()
    repo.export("main", str(full), overwrite=True)
    assert tree_of(full) == {**TREE, "file": b"mine"}


def test_it_goes_on_only_from_what_is_there(repo: Repository, folder: Path) -> None:
    first = repo.resolve("main").id
    commit_all(repo.branch("main"), {"b": b"2"}, "second")
    repo.export("main", str(folder / "out"))
    with pytest.raises(InvalidInputError, match=r"contains .*, not"):
        repo.export("main", str(folder / "out"), since=first)


def test_a_full_export_mends_what_one_before_left(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    (folder / "out" / "a").write_bytes(b"damaged")
    commit_all(repo.branch("main"), {"u/d": None}, "second")
    made = repo.export("main", str(folder / "out"))
    assert tree_of(folder / "out") == contents(repo, "main")
    assert (made.added, made.removed) == (3, 1)


@pytest.mark.parametrize("body", [b"2", b"1 and more", b""])
def test_what_was_overwritten_is_found(repo: Repository, folder: Path, body: bytes) -> None:
    path = Path(repo.stat("main", "a").address.removeprefix("file://"))
    path.unlink()
    path.write_bytes(body)
    with pytest.raises(CorruptFileError, match="'a'"):
        repo.export("main", str(folder / "out"))
    assert "a" not in tree_of(folder / "out")


def test_what_is_gone_is_named(repo: Repository, folder: Path) -> None:
    Path(repo.stat("main", "u/d").address.removeprefix("file://")).unlink()
    with pytest.raises(MissingFileError, match="'u/d'"):
        repo.export("main", str(folder / "out"))


def test_names_that_no_folder_can_hold(repo: Repository, folder: Path) -> None:
    names = ["a/b", "x" * 256, EXPORT_MARKER_KEY, "_manifest/part-00000.parquet"]
    rows = [{"path": each, "size": 1, "checksum": "c", "address": "data/x"} for each in names]
    repo.branch("main").stage(stage_table(rows))
    repo.branch("main").commit("odd")
    with pytest.raises(UnsupportedNamesError) as refused:
        repo.export("main", str(folder / "out"))
    assert sorted(path for path, _ in refused.value.objects) == sorted(names)
    assert refused.value.count == len(names)
    assert not (folder / "out").exists()


def test_a_folder_in_the_way_is_named(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    commit_all(repo.branch("main"), {"a/b": b"below a file"}, "second")
    with pytest.raises(UnsupportedNamesError, match="a/b"):
        repo.export("main", str(folder / "out"), incremental=True)
    commit_all(repo.branch("main"), {"a": None}, "third")
    repo.export("main", str(folder / "out"), incremental=True)
    assert tree_of(folder / "out") == contents(repo, "main")


def test_two_exports_to_one_place_are_noticed(
    repo: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, out = LocalDestination.settle, str(folder / "out")
    others = [lambda: repo.export("main", out, overwrite=True)]

    def meanwhile(destination: LocalDestination) -> None:
        settle(destination)
        if others and (folder / "out" / "a").exists():
            others.pop()()

    monkeypatch.setattr(LocalDestination, "settle", meanwhile)
    with pytest.raises(RaceLostError):
        repo.export("main", out)


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_manifest_alone(repo: Repository, folder: Path, form: str) -> None:
    made = repo.manifest("main", str(folder / "list"), format=form)
    (part,) = (folder / "list").glob(f"part-*.{form}")
    if form == "parquet":
        rows = rows_of(folder / "list")
    elif form == "csv":
        rows = pyarrow.csv.read_csv(part).to_pylist()
    else:
        rows = [json.loads(line) for line in part.read_bytes().splitlines()]
    assert {row["path"]: row["size"] for row in rows} == {p: len(b) for p, b in TREE.items()}
    assert {row["commit"] for row in rows} == {made.commit}
    assert made.size == 7
    again = {"manifest_only": True, "manifest_format": form, "overwrite": True}
    repo.export("main", str(folder / "list"), "u/", **again)  # type: ignore[arg-type]
    assert tree_of(folder / "list").keys() == {"_summary.json", part.name}


# --- any history, any crash -----------------------------------------------------------------------


AT_THE_DESTINATION = LocalDestination, ("copy", "put", "remove", "tidy")


@pytest.mark.system
@pytest.mark.parametrize("moved_on", [False, True])
@pytest.mark.parametrize("incremental", [False, True])
def test_whatever_dies_is_carried_on(
    repo: Repository, folder: Path, incremental: bool, moved_on: bool
) -> None:
    main, deaths, has_died = repo.branch("main"), 0, True
    while has_died:
        out = folder / f"out-{deaths}"
        repo.export("main", str(out))
        old = contents(repo, "main")
        commit_all(main, {"a": None, "a/b": b"below", "u/d": b"%d" % deaths, "v": b"v"}, "next")
        has_died = False
        try:
            with dies_at(deaths, *AT_THE_DESTINATION):
                repo.export("main", str(out), incremental=incremental)
        except CrashError:
            has_died = True
            if moved_on:
                commit_all(main, {"v": None, "u/d": old["u/d"]}, "back")
            repo.export("main", str(out), incremental=True)
        assert tree_of(out) == contents(repo, "main")
        commit_all(main, {"a/b": None, "a": b"1", "v": None, "w": b"%d" % deaths}, "again")
        deaths += 1
    assert deaths > 8


PATHS = st.sampled_from(["a", "a/b", "a/b/c", "a-b", "b", "b/x=1", "c/d", "c/e", "d"])
BODIES = st.one_of(st.none(), st.binary(max_size=3))
COMMITS = st.dictionaries(PATHS, BODIES, min_size=1, max_size=5)
STEPS = st.lists(st.tuples(COMMITS, st.none() | st.integers(0, 12), st.booleans()), max_size=6)


def fits(tree: dict[str, bytes]) -> dict[str, bytes]:
    """Return a tree without what lies below an object."""
    return {p: b for p, b in tree.items() if not any(p.startswith(f"{q}/") for q in tree)}


@pytest.mark.system
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_folder_is_what_was_exported_last(steps: Any) -> None:
    with memory_folder() as folder:
        lake = memory_lake()
        repo = lake.create_repository(uuid4().hex, str(folder / "namespace"), range_records=1)
        main, model, out = repo.branch("main"), dict[str, bytes](), folder / "out"
        for changes, death, incremental in steps:
            wanted = {p: b for p, b in {**model, **changes}.items() if b is not None}
            after = fits(wanted)
            changed = {p: after.get(p) for p in {*model, *after} if model.get(p) != after.get(p)}
            if changed:
                commit_all(main, changed, "next")
            model = after
            if death is not None:
                try:
                    with dies_at(death, *AT_THE_DESTINATION):
                        repo.export("main", str(out), incremental=incremental)
                except CrashError:
                    continue
            else:
                repo.export("main", str(out), incremental=incremental)
            assert tree_of(out) == model
        repo.export("main", str(out), incremental=True)
        assert tree_of(out) == model
