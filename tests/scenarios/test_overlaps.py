"""Storage namespaces that overlap: by names, by links, in one lake and in several."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from campaigns.postgres import fresh_database
from sparklake import Lake, Repository
from sparklake.errors import (
    InvalidInputError,
    MissingFileError,
    NamespaceInUseError,
    PurgeBlockedError,
)
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.testing.lakes import (
    commit_all,
    contents,
    files_below,
    memory_lake,
    namespace_of,
    postgres_lake,
    stage_table,
)
from tests.support.lakes import refused
from tests.support.s3_fixtures import Bucket

pytestmark = pytest.mark.both_stores

NO_GRACE = timedelta()
BODIES: dict[str, bytes | None] = {"a": b"1", "b": b"2"}


@pytest.fixture
def other_lake(server_dsn: str) -> Iterator[Lake]:
    """Is a lake on another Postgres, which knows nothing of the first one's namespaces."""
    with fresh_database(server_dsn) as dsn, postgres_lake(dsn) as opened:
        yield opened


def made(lake: Lake, namespace: object) -> Repository:
    repo = lake.create_repository(f"r{uuid4().hex}", str(namespace), range_records=2)
    commit_all(repo.branch("main"), BODIES, "first")
    return repo


def collected(repo: Repository) -> None:
    repo.collect_garbage(grace=NO_GRACE)


def link(at: Path, to: Path) -> Path:
    at.symlink_to(to)
    return at


# --- creating and restoring -----------------------------------------------------------------------


def spellings(folder: Path) -> list[str]:
    """Return ways to name a folder inside of `ns/data`, none of which begins with its path."""
    link(folder / "lnk", folder / "ns" / "data")
    (folder / "deep").mkdir()
    link(folder / "deep" / "up", folder)
    return [
        f"{folder}/lnk/inner",
        f"{folder}/lnk/inner/",
        f"file://{folder}/lnk/inner",
        f"file:{folder}/lnk/inner",
        f"file://localhost{folder}/lnk/x/../inner",
        f"{folder}/deep/up/ns/data/inner",
        f"{folder}/deep/up/lnk/inner",
        f"{folder}/lnk",
        os.path.relpath(folder / "lnk" / "inner"),
    ]


@pytest.mark.parametrize("lakes", ["one lake", "two lakes"])
def test_no_namespace_lies_in_another_one_by_a_link(
    any_lake: Lake, other_lake: Lake, folder: Path, lakes: str
) -> None:
    outer = made(any_lake, folder / "ns")
    lake = any_lake if lakes == "one lake" else other_lake
    for each in spellings(folder):
        with refused(lake, NamespaceInUseError, "is inside|overlaps", folder / "ns"):
            lake.create_repository("inner", each)
    assert contents(outer, "main") == BODIES


def test_links_side_by_side_are_fine(any_lake: Lake, folder: Path) -> None:
    (folder / "disk").mkdir()
    link(folder / "lnk", folder / "disk")
    for name in ("lnk/one", "lnk/one2", "disk/three"):
        repo = made(any_lake, folder / name)
        collected(repo)
        assert contents(repo, "main") == BODIES


@pytest.mark.parametrize("lakes", ["one lake", "two lakes"])
def test_no_namespace_lies_around_another_one(
    any_lake: Lake, other_lake: Lake, folder: Path, lakes: str
) -> None:
    inner = made(any_lake, folder / "ns" / "data" / "inner")
    lake = any_lake if lakes == "one lake" else other_lake
    link(folder / "lnk", folder / "ns")
    for each in (folder / "ns", folder / "lnk"):
        with refused(lake, NamespaceInUseError, "overlaps|already contains files", folder / "ns"):
            lake.create_repository("outer", str(each))
    assert contents(inner, "main") == BODIES


def test_what_lies_in_the_place_of_objects_is_not_adopted(small_lake: Lake, folder: Path) -> None:
    (folder / "ns" / "data" / "mine").mkdir(parents=True)
    (folder / "ns" / "data" / "mine" / "a.csv").write_bytes(b"1")
    with refused(small_lake, NamespaceInUseError, "already contains files", folder):
        small_lake.create_repository("lake", str(folder / "ns"))
    small_lake.create_repository("lake", str(folder / "ns" / "other"))


@pytest.mark.parametrize("lakes", ["one lake", "two lakes"])
def test_nothing_is_restored_inside_of_another_namespace(
    any_lake: Lake, other_lake: Lake, folder: Path, lakes: str
) -> None:
    apart = made(any_lake, folder / "apart")
    apart.dump_refs()
    made(any_lake, folder / "ns")
    shutil.copytree(folder / "apart", folder / "ns" / "data" / "inner")
    link(folder / "lnk", folder / "ns" / "data")
    lake = any_lake if lakes == "one lake" else other_lake
    with refused(lake, NamespaceInUseError, "is inside|overlaps", folder):
        lake.restore_repository("inner", str(folder / "lnk" / "inner"))


def test_nothing_is_exported_or_reported_into_a_namespace_of_another_lake(
    small_lake: Lake, other_lake: Lake, folder: Path
) -> None:
    repo = made(small_lake, folder / "ns")
    made(other_lake, folder / "theirs")
    link(folder / "lnk", folder / "theirs" / "data")
    (folder / "source").mkdir()
    (folder / "source" / "x").write_bytes(b"1")
    for place in ("theirs/data/out", "lnk/out"):
        with refused(small_lake, NamespaceInUseError, "is inside", folder):
            repo.export("main", str(folder / place))
        with refused(small_lake, NamespaceInUseError, "is inside", folder):
            repo.branch("main").import_objects(
                str(folder / "source"), errors_to=str(folder / place)
            )


def test_an_import_and_an_export_see_through_links(small_lake: Lake, folder: Path) -> None:
    repo = made(small_lake, folder / "ns")
    link(folder / "lnk", folder / "ns" / "data")
    link(folder / "up", folder)
    for place in ("lnk", "up/ns", "up"):
        with refused(small_lake, InvalidInputError, "overlaps", folder):
            repo.branch("main").import_objects(str(folder / place))
        with refused(small_lake, InvalidInputError, "overlaps", folder):
            repo.export("main", str(folder / place))


# --- collecting -----------------------------------------------------------------------------------


def moved_in(any_lake: Lake, lake: Lake, folder: Path) -> tuple[Repository, Repository]:
    """Return two repositories; the second was moved into the first, and linked from its place."""
    outer, inner = made(any_lake, folder / "ns"), made(lake, folder / "inner")
    shutil.move(folder / "inner", folder / "ns" / "data" / "inner")
    link(folder / "inner", folder / "ns" / "data" / "inner")
    return outer, inner


@pytest.mark.parametrize("lakes", ["one lake", "two lakes"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_no_collection_takes_from_a_namespace_inside(
    any_lake: Lake, other_lake: Lake, folder: Path, lakes: str, dry_run: bool
) -> None:
    lake = any_lake if lakes == "one lake" else other_lake
    outer, inner = moved_in(any_lake, lake, folder)
    with pytest.raises(NamespaceInUseError, match="data/inner is inside the folder"):
        outer.collect_garbage(grace=NO_GRACE, dry_run=dry_run)
    assert contents(inner, "main") == BODIES
    collected(inner)
    assert contents(inner, "main") == BODIES
    # The way out that the error names.
    (folder / "inner").unlink()
    shutil.move(folder / "ns" / "data" / "inner", folder / "inner")
    collected(outer)
    assert contents(inner, "main") == contents(outer, "main") == BODIES


def test_no_list_of_an_earlier_run_takes_from_a_namespace_that_came_since(
    small_lake: Lake, folder: Path
) -> None:
    outer, inner = made(small_lake, folder / "ns"), made(small_lake, folder / "inner")
    inside = folder / "ns" / "data" / "inner"
    shutil.copytree(folder / "inner" / "data", inside / "data")
    found = outer.collect_garbage(grace=NO_GRACE, dry_run=True).run
    assert found.objects == 2
    shutil.rmtree(folder / "inner" / "data")
    shutil.move(folder / "inner" / "_lakefs", inside / "_lakefs")
    shutil.rmtree(folder / "inner")
    link(folder / "inner", inside)
    with pytest.raises(NamespaceInUseError, match="data/inner is inside the folder"):
        outer.collect_garbage(grace=NO_GRACE, sweep=found.id)
    assert contents(inner, "main") == BODIES


def test_what_links_lead_to_is_named(any_lake: Lake, folder: Path) -> None:
    repo = any_lake.create_repository(f"r{uuid4().hex}", str(folder / "ns"))
    main, root = repo.branch("main"), namespace_of(repo)
    for number in range(5):
        repo._context.store.put_if_absent(f"data/d/{number}", b"1")
    link(folder / "lnk", root / "data" / "d")
    link(folder / "file", root / "data" / "d" / "2")
    main.stage(rows_of([f"file://{folder}/lnk/0", f"file://{folder}/lnk//1"]))
    main.commit("all")
    main.stage(rows_of([f"file://{folder}/file"]))
    before = files_below(root / "data")
    collected(repo)
    assert {*before} - {*files_below(root / "data")} == {"d/3", "d/4"}


def rows_of(addresses: list[str]) -> Any:
    return stage_table(
        [
            {"path": f"{uuid4().hex}", "size": 1, "checksum": "c", "address": each}
            for each in addresses
        ]
    )


def test_no_file_that_leads_into_the_namespace_is_imported(small_lake: Lake, folder: Path) -> None:
    repo = made(small_lake, folder / "ns")
    (own, *_) = (folder / "ns" / "data").iterdir()
    (folder / "source").mkdir()
    link(folder / "source" / "x", own)
    row = {"path": "x", "size": 1, "checksum": "c", "address": f"file://{folder}/source/x"}
    with pytest.raises(InvalidInputError, match="own_namespace"):
        repo.branch("main").import_objects(stage_table([row]), "in")


# --- purging --------------------------------------------------------------------------------------


def test_no_purge_takes_from_a_namespace_inside(
    any_lake: Lake, other_lake: Lake, folder: Path
) -> None:
    outer, inner = moved_in(any_lake, other_lake, folder)
    main = outer.branch("main")
    (theirs,) = (each for each in inner.objects("main") if each.path == "a")
    inside = theirs.address.replace(f"{folder}/inner/", f"{folder}/ns/data/inner/")
    row = {"path": "theirs", "size": 1, "checksum": "c", "address": inside}
    main.stage(stage_table([row]))
    main.commit("theirs")
    with refused(any_lake, PurgeBlockedError, "data/inner. Purge them there", folder / "ns"):
        outer.purge(["theirs"], commit=True)
    assert contents(inner, "main") == BODIES


def test_no_purge_of_what_was_imported_takes_from_another_repository(
    any_lake: Lake, other_lake: Lake, folder: Path
) -> None:
    repo, theirs = made(any_lake, folder / "ns"), made(other_lake, folder / "theirs")
    repo.branch("main").import_objects(str(folder / "theirs" / "data"), "in")
    with refused(any_lake, PurgeBlockedError, "theirs. Purge them there", folder / "theirs"):
        repo.purge(["in/"], commit=True, include_external=True)
    made_purge = repo.purge(["in/"], commit=True)
    assert (made_purge.counts.external, made_purge.counts.addresses) == (2, 0)
    assert contents(theirs, "main") == BODIES


def test_an_object_that_is_named_by_a_link_too_is_shared(any_lake: Lake, folder: Path) -> None:
    repo = made(any_lake, folder / "ns")
    main = repo.branch("main")
    (own,) = (each for each in repo.objects("main") if each.path == "a")
    link(folder / "lnk", folder / "ns" / "data")
    name = own.address.rpartition("/")[2]
    row = {"path": "alias", "size": 1, "checksum": "c", "address": f"file://{folder}/lnk/{name}"}
    main.stage(stage_table([row]))
    main.commit("alias")
    for also in (False, True):
        with pytest.raises(PurgeBlockedError, match="other paths share the bytes"):
            repo.purge(["alias"], commit=True, include_external=also)
    assert contents(repo, "main") == {**BODIES, "alias": b"1"}
    assert repo.purge(["alias", "a"], commit=True).counts.addresses == 1
    with pytest.raises(MissingFileError):
        repo.read_bytes("main~1", "alias")


# --- buckets --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scratch")
def test_namespaces_of_several_lakes_in_one_bucket(bucket: Bucket) -> None:
    root = f"s3://{bucket.name}"
    first, second = memory_lake(), memory_lake()
    outer = first.create_repository("outer", f"{root}/a/ns")
    commit_all(outer.branch("main"), BODIES, "first")
    for inside in ("a/ns/data/inner", "a/ns/x", "a/ns/data"):
        with pytest.raises(NamespaceInUseError, match=f"{root}/{inside} is inside {root}/a/ns,"):
            second.create_repository("inner", f"{root}/{inside}")
        assert f"{inside}/{NAMESPACE_MARKER_KEY}" not in bucket.objects()
    for beside in ("a/ns2", "a/n"):
        second.create_repository(f"beside-{len(beside)}", f"{root}/{beside}")
    bucket.put({"b/data/theirs/_lakefs/dummy": b"", "b/data/theirs/data/x": b"1"})
    with pytest.raises(NamespaceInUseError, match="already contains files"):
        second.create_repository("around", f"{root}/b")
    assert f"b/{NAMESPACE_MARKER_KEY}" not in bucket.objects()
    third = first.create_repository("root", f"s3://{bucket.name}/c")
    assert third.collect_garbage(grace=NO_GRACE).run.objects == 0


@pytest.mark.system
@pytest.mark.usefixtures("scratch")
def test_no_collection_or_purge_takes_from_a_namespace_inside_of_a_bucket(bucket: Bucket) -> None:
    root, lake = f"s3://{bucket.name}", memory_lake()
    repo = lake.create_repository("outer", f"{root}/ns")
    main = repo.branch("main")
    commit_all(main, BODIES, "first")
    bucket.put({"ns/data/in/data/x": b"1"})
    found = repo.collect_garbage(grace=NO_GRACE, dry_run=True).run
    bucket.put({"ns/data/in/_lakefs/dummy": b"{}"})
    for sweep in (None, found.id):
        with pytest.raises(NamespaceInUseError, match=f"{root}/ns/data/in is inside the folder"):
            repo.collect_garbage(grace=NO_GRACE, sweep=sweep)
    main.stage(
        stage_table(
            [{"path": "x", "size": 1, "checksum": "c", "address": f"{root}/ns/data/in/data/x"}]
        )
    )
    main.commit("theirs")
    with pytest.raises(PurgeBlockedError, match="Purge them there"):
        repo.purge(["x"], commit=True)
    assert "ns/data/in/data/x" in bucket.objects()
    # A bucket as a whole may be a namespace, too.
    bucket.put({"_lakefs/dummy": b"{}", "data/y": b"1"})
    main.stage(
        stage_table([{"path": "y", "size": 1, "checksum": "c", "address": f"{root}/data/y"}])
    )
    main.commit("imported")
    with pytest.raises(PurgeBlockedError, match="Purge them there"):
        repo.purge(["y"], commit=True, include_external=True)
    assert "data/y" in bucket.objects()
