"""A repository that lakeFS dumped is restored here, is what lakeFS says it is, and goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from sparklake import Commit, Lake, Repository
from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError, NoChangesError
from sparklake.graveler.dumps.dump import read_dump_manifest
from sparklake.graveler.dumps.ref_files import Entity, read_ref_records
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import contents, files_below, memory_lake, namespace_of
from sparklake.testing.memory import MemoryRefStore
from tests.support.lakes import refused

HERE = Path(__file__).parent
LISTING = json.loads((HERE / "listing.json").read_text())
COMMITS = LISTING["commits"]
BY_ID = {each["id"]: each for each in COMMITS}
DUMP = sorted(path.name for path in (HERE / "dump" / "_lakefs").iterdir() if path.name != "dummy")

commits = pytest.mark.parametrize("commit", COMMITS, ids=lambda each: each["message"])


@pytest.fixture
def namespace() -> Iterator[Path]:
    """Is the storage namespace that lakeFS wrote: tables of trees, the dump, objects."""
    with memory_folder() as folder:
        for part in ("namespace", "dump"):
            shutil.copytree(HERE / part, folder / "ns", dirs_exist_ok=True)
        yield folder / "ns"


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def repo(lake: Lake, namespace: Path) -> Repository:
    return lake.restore_repository("golden", str(namespace))


def told(commit: Commit) -> dict[str, Any]:
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": commit.creation_date,
        "meta_range_id": commit.meta_range_id,
        "metadata": dict(commit.metadata),
        "generation": commit.generation,
    }


# --- what lakeFS says -----------------------------------------------------------------------------


def test_the_refs_are_lakefs_own(repo: Repository) -> None:
    branches = [{"commit_id": each.commit_id, "id": each.name} for each in repo.branch_states()]
    assert branches == LISTING["branches"]
    tags = [{"commit_id": each.commit_id, "id": each.name} for each in repo.tags()]
    assert tags == LISTING["tags"]
    snapshot = repo._context.refs.snapshot()
    assert {each.id for each in snapshot.commits} == BY_ID.keys()
    assert repo.info.default_branch == LISTING["repository"]["default_branch"]
    base = repo.merge_base("feature", "374f9c8166c6")
    assert base.id == LISTING["merge_base_feature_main"]["base_commit_id"]


@commits
def test_every_commit_is_lakefs_own(repo: Repository, commit: dict[str, Any]) -> None:
    expected = {name: commit[name] for name in told(repo.resolve("main"))}
    assert told(repo.resolve(commit["id"])) == expected


@commits
def test_every_listing_is_lakefs_own(repo: Repository, commit: dict[str, Any]) -> None:
    listing = [
        {
            "path": each.path,
            "path_type": "object",
            "physical_address": each.address.replace(
                repo.info.storage_namespace, "<storage namespace>"
            ),
            "checksum": each.checksum,
            "size_bytes": each.size,
            "mtime": each.mtime // 1_000_000_000,
            "content_type": each.content_type,
            **({"metadata": each.metadata} if each.metadata else {}),
        }
        for each in repo.objects(commit["id"])
    ]
    assert listing == commit["entries"]


@pytest.mark.parametrize(
    "commit", [each for each in COMMITS if each["parents"]], ids=lambda each: each["message"]
)
def test_every_diff_is_lakefs_own(repo: Repository, commit: dict[str, Any]) -> None:
    changes = [
        {"path": each.path, "path_type": "object", "size_bytes": each.size, "type": each.type.value}
        for each in repo.diff(commit["parents"][0], commit["id"])
    ]
    assert changes == commit["diff_to_first_parent"]


def test_every_object_is_there(repo: Repository) -> None:
    for commit in COMMITS:
        sums = {each["path"]: each["checksum"] for each in commit["entries"]}
        assert {
            path: md5(body, usedforsecurity=False).hexdigest()
            for path, body in contents(repo, commit["id"]).items()
        } == sums


# --- and on it goes -------------------------------------------------------------------------------


def test_commits_and_merges_go_on_without_copying_an_object(
    repo: Repository, namespace: Path
) -> None:
    before = files_below(namespace / "data")
    tree = contents(repo, "main")
    gone, kept, changed = sorted(tree)[1], sorted(tree)[2], sorted(tree)[5]
    dev = repo.create_branch("dev", "main")
    dev.delete(gone)
    dev.put("zz/new", b"new")
    dev.commit("on dev")
    main = repo.branch("main")
    main.put(changed, b"changed")
    main.commit("on main")
    merged = repo.merge("dev", "main")
    tree = {**tree, "zz/new": b"new", changed: b"changed"}
    del tree[gone]
    assert contents(repo, "main") == tree
    assert kept in tree
    after = files_below(namespace / "data")
    assert len(after) == len(before) + 2
    assert after.items() >= before.items()
    assert [(each.type.value, each.path) for each in repo.diff("main~1", "main")] == [
        ("removed", gone),
        ("added", "zz/new"),
    ]
    assert merged.generation == 1 + max(repo.resolve(each).generation for each in merged.parents)
    assert len(list(repo.log("main"))) == len(list(repo.log(COMMITS_OF_MAIN))) + 3


COMMITS_OF_MAIN = next(each["commit_id"] for each in LISTING["branches"] if each["id"] == "main")


def test_what_changes_nothing_is_no_commit(repo: Repository) -> None:
    main = repo.branch("main")
    path, body = next(iter(contents(repo, "main").items()))
    main.put(path, body)
    with pytest.raises(NoChangesError):
        main.commit("nothing")


def test_a_dump_of_ours_holds_what_lakefs_wrote(
    repo: Repository, lake: Lake, namespace: Path
) -> None:
    store = open_store(str(namespace))
    theirs = read_dump_manifest(store)
    made = repo.dump_refs()
    assert (made.branches, made.tags, made.commits, made.dirty) == (4, 1, len(COMMITS), ())
    ours = read_dump_manifest(store)
    assert ours == made.manifest
    # Ranges of names are lakeFS's to the last byte that is hashed. Its commits have nanoseconds.
    for entity, one, other in (
        (Entity.BRANCH, ours.branches_meta_range_id, theirs.branches_meta_range_id),
        (Entity.TAG, ours.tags_meta_range_id, theirs.tags_meta_range_id),
    ):
        assert read_ref_records(store, one, entity) == read_ref_records(store, other, entity)
    names = {each.name for each in (HERE / "dump" / "_lakefs").iterdir()}
    new = {each.name for each in (namespace / "_lakefs").iterdir()} - names
    new -= {each.name for each in (HERE / "namespace" / "_lakefs").iterdir()}
    assert len(new) == 5  # three metaranges, the range of commits, the settings
    snapshot = repo._context.refs.snapshot()
    again = Lake(MemoryRefStore(), lake._runners, "eve").restore_repository("x-x", str(namespace))
    assert again._context.refs.snapshot() == snapshot


def test_a_dump_of_lakefs_takes_settings(lake: Lake, namespace: Path) -> None:
    repo = lake.restore_repository("golden", str(namespace), "dst", range_records=7)
    assert (repo.info.default_branch, repo.info.range_records) == ("dst", 7)


# --- what is not whole ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", DUMP, ids=lambda name: name[:8])
def test_a_dump_that_is_not_whole_makes_nothing(lake: Lake, namespace: Path, name: str) -> None:
    file = namespace / "_lakefs" / name
    body = file.read_bytes()
    file.unlink()
    with refused(lake, MissingFileError, name, namespace):
        lake.restore_repository("golden", str(namespace))
    for damaged in (body[:-1], b"", body[:30] + bytes([body[30] ^ 255]) + body[31:]):
        file.write_bytes(damaged)
        with refused(lake, CorruptFileError, name, namespace):
            lake.restore_repository("golden", str(namespace))
    file.write_bytes(body)
    assert lake.restore_repository("golden", str(namespace)).name == "golden"


@commits
def test_a_tree_that_is_not_there_makes_nothing(
    lake: Lake, namespace: Path, commit: dict[str, Any]
) -> None:
    named = {each["commit_id"] for each in (*LISTING["branches"], *LISTING["tags"])}
    tables = [commit["meta_range_id"]] if commit["meta_range_id"] else []
    if commit["id"] in named:
        tables += [each["id"] for each in commit["ranges"]]
    for table in tables:
        file = namespace / "_lakefs" / table
        aside = file.rename(namespace.parent / "aside")
        with refused(lake, MissingFileError, table, namespace):
            lake.restore_repository("golden", str(namespace))
        aside.rename(file)
    assert lake.restore_repository("golden", str(namespace)).name == "golden"


def test_a_head_whose_tree_is_damaged_makes_nothing(lake: Lake, namespace: Path) -> None:
    table = BY_ID[COMMITS_OF_MAIN]["meta_range_id"]
    file = namespace / "_lakefs" / table
    file.write_bytes(file.read_bytes()[:-1])
    with refused(lake, CorruptFileError, table, namespace):
        lake.restore_repository("golden", str(namespace))


def test_a_default_branch_that_is_none_makes_nothing(lake: Lake, namespace: Path) -> None:
    words = "no branch 'trunk'.*dst, feature, main, src"
    with refused(lake, InvalidInputError, words, namespace):
        lake.restore_repository("golden", str(namespace), "trunk")


def test_the_namespace_is_this_repository_s_then(lake: Lake, repo: Repository) -> None:
    mark = json.loads((namespace_of(repo) / "_lakefs" / "dummy").read_text())
    assert (mark["repository"], mark["uid"]) == ("golden", repo.info.uid)
    assert (namespace_of(repo) / REFS_MANIFEST_KEY).is_file()
