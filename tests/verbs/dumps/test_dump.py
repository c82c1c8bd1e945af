"""Dump and restore: what is committed outlives the ref store, and nothing else is made of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.postgres import fresh_database
from sparklake import Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    CorruptFileError,
    DirtyBranchError,
    InvalidInputError,
    InvalidNameError,
    MissingFileError,
    NamespaceInUseError,
    NoChangesError,
    RepositoryNotFoundError,
    StoreError,
    StoreUnreachableError,
)
from sparklake.layout import DUMP_SETTINGS_KEY, NAMESPACE_MARKER_KEY, REFS_MANIFEST_KEY
from sparklake.stores.objects.local.files import TEMPORARY
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import (
    commit_all,
    contents,
    files_below,
    memory_lake,
    namespace_of,
    postgres_lake,
)
from tests.support.lakes import paths, refused


@pytest.fixture(params=["memory", "postgres"])
def first(request: pytest.FixtureRequest) -> Iterator[Lake]:
    """Is the lake that will be lost."""
    if request.param == "memory":
        yield memory_lake()
        return
    with fresh_database(request.getfixturevalue("server_dsn")) as dsn, postgres_lake(dsn) as opened:
        yield opened


@pytest.fixture
def second(first: Lake, small_lake: Lake, lake: Lake) -> Lake:
    """Is another lake of the same kind."""
    is_memory = type(first._ref_store) is type(small_lake._ref_store)
    return small_lake if is_memory else lake


def a_name() -> str:
    return f"r{uuid4().hex[:12]}"


def built(lake: Lake, folder: Path) -> Repository:
    """Make a repository with branches, tags, merges, and commit that no ref names."""
    repo = lake.create_repository(a_name(), str(folder / "ns"), "trunk", range_records=3)
    trunk = repo.branch("trunk")
    commit_all(trunk, {f"d/{number}": b"%d" % number for number in range(20)}, "base")
    dev = repo.create_branch("dev:x", "trunk")
    commit_all(dev, {"d/1": b"dev", "d/2": None}, "dev\nwith a second line")
    commit_all(trunk, {"d/9": b"trunk", "ü/✓": b""}, "trunk")
    repo.create_tag("v1.0", "trunk")
    repo.merge("dev:x", "trunk", metadata={"k": "v", "a": "ü"})
    lost = repo.create_branch("lost", "dev:x")
    commit_all(lost, {"lost": b"1"}, "nobody names it")
    repo.delete_branch("lost")
    return repo


def committed(repo: Repository) -> dict[str, Any]:
    """Return all that a dump must keep."""
    snapshot = repo._context.refs.snapshot()
    return {
        "branches": {each.name: each.commit_id for each in snapshot.branches},
        "tags": snapshot.tags,
        "commits": snapshot.commits,
        "contents": {each.name: contents(repo, f"{each.commit_id}") for each in snapshot.named},
        "settings": (repo.info.default_branch, repo.info.range_records),
    }


# --- the round trip -------------------------------------------------------------------------------


def test_all_that_is_committed_comes_back(first: Lake, second: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.branch("dev:x").put("staged", b"staged")
    made = repo.dump_refs()
    assert (made.branches, made.tags, made.commits, made.dirty) == (2, 1, 6, ("dev:x",))
    before, files = committed(repo), files_below(folder / "ns")
    restored = second.restore_repository(a_name(), str(folder / "ns"))
    assert committed(restored) == before
    assert "staged" not in paths(restored, "dev:x")
    assert [each.layers for each in restored.branch_states()] == [(), ()]
    assert {each.verb for each in restored.operations()} == {"restore-repository"}
    changed = dict(files_below(folder / "ns").items() - files.items())
    assert set(changed) == {NAMESPACE_MARKER_KEY}
    # The same records make the same tree, wherever it goes on.
    head = commit_all(restored.branch("trunk"), {"d/3": b"x"}, "on")
    assert head.meta_range_id == commit_all(repo.branch("trunk"), {"d/3": b"x"}, "on").meta_range_id


def test_a_repository_that_was_forgotten_comes_back_in_its_own_lake(
    first: Lake, folder: Path
) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    before = committed(repo)
    first.delete_repository(repo.name)
    restored = first.restore_repository(repo.name, str(folder / "ns"))
    assert committed(restored) == before
    assert restored.info.uid != repo.info.uid


def test_a_copy_of_a_namespace_is_a_repository_of_its_own(first: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    shutil.copytree(folder / "ns", folder / "copy")
    (folder / "copy" / NAMESPACE_MARKER_KEY).unlink()
    copy = first.restore_repository(a_name(), str(folder / "copy"))
    assert committed(copy) == committed(repo)
    commit_all(copy.branch("trunk"), {"only": b"here"}, "here")
    copy.dump_refs()
    repo.dump_refs()


def test_a_dump_is_the_same_until_refs_move(first: Lake, folder: Path) -> None:
    repo = built(first, folder)
    made = repo.dump_refs()
    tables = set(files_below(folder / "ns"))
    assert repo.dump_refs() == made
    assert set(files_below(folder / "ns")) == tables
    repo.create_tag("v2", "trunk")
    later = repo.dump_refs().manifest
    assert later.tags_meta_range_id != made.manifest.tags_meta_range_id
    assert later.commits_meta_range_id == made.manifest.commits_meta_range_id
    manifest = json.loads((folder / "ns" / REFS_MANIFEST_KEY).read_text())
    assert manifest["tags_meta_range_id"] == later.tags_meta_range_id


def test_dumps_while_branches_move_are_each_of_one_moment(
    first: Lake, second: Lake, folder: Path
) -> None:
    repo = first.create_repository(a_name(), str(folder / "ns"))
    is_over = Event()

    def work() -> None:
        number = 0
        while not is_over.is_set():
            commit_all(repo.branch("main"), {"n": b"%d" % number}, str(number))
            repo.create_branch(f"at-{number}", "main")
            number += 1

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            # What is being written has a name for the time of it, and may go while it is copied.
            passing = shutil.ignore_patterns(TEMPORARY)
            for number in range(5):
                made = repo.dump_refs()
                shutil.copytree(folder / "ns", folder / f"copy-{number}", ignore=passing)
                restored = second.restore_repository(a_name(), str(folder / f"copy-{number}"))
                heads = {each.name: each.commit_id for each in restored.branch_states()}
                assert len(heads) == made.branches
                assert made.commits - made.branches in (0, 1)
                log = [each.id for each in restored.log("main")]
                assert len(log) == made.commits
                assert set(heads.values()) <= set(log)
        finally:
            is_over.set()
        working.result()


steps = st.lists(
    st.tuples(
        st.sampled_from(["commit", "branch", "tag", "merge", "drop", "stage"]),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=14,
)


@given(steps=steps)
@settings(max_examples=25, deadline=None)
def test_any_history_comes_back(scratch: Path, steps: list[tuple[str, int, int]]) -> None:
    with memory_folder() as folder:
        repo = memory_lake().create_repository("lake", str(folder / "ns"), range_records=2)
        for number, (verb, one, other) in enumerate(steps):
            names = [each.name for each in repo.branch_states()]
            name, second = names[one % len(names)], names[other % len(names)]
            if verb == "branch":
                repo.create_branch(f"b{number}", name)
            elif verb == "tag":
                repo.create_tag(f"t{number}", name)
            elif verb == "drop" and name != "main":
                repo.delete_branch(name, discard_staged=True)
            elif verb == "stage":
                repo.branch(name).put(f"k{other}", b"%d" % number)
            elif verb == "commit":
                commit_all(repo.branch(name), {f"k{other}": b"c%d" % number}, str(number))
            elif verb == "merge":
                attempted(lambda: repo.merge(name, second, "source-wins"))  # noqa: B023 - at once
        repo.dump_refs()
        restored = memory_lake().restore_repository("again", str(folder / "ns"))
        assert committed(restored) == committed(repo)


def attempted(verb: Callable[[], object]) -> None:
    """Run a verb that may find nothing to do, or staged changes in the way."""
    with suppress(NoChangesError, DirtyBranchError):
        verb()


# --- who may dump ---------------------------------------------------------------------------------


def test_who_was_taken_over_dumps_no_more(first: Lake, second: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    restored = second.restore_repository(a_name(), str(folder / "ns"))
    commit_all(restored.branch("trunk"), {"later": b"1"}, "later")
    restored.dump_refs()
    with refused(first, NamespaceInUseError, f"restored to '{restored.name}'", folder):
        repo.dump_refs()


def test_what_is_gone_is_not_dumped(first: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    first.delete_repository(repo.name)
    with refused(first, RepositoryNotFoundError, "no longer exists", folder):
        repo.dump_refs()


def test_a_disk_that_is_away_is_not_dumped_to(first: Lake, folder: Path) -> None:
    repo = built(first, folder)
    (folder / "ns").rename(folder / "away")
    (folder / "ns").mkdir()
    with refused(first, StoreUnreachableError, NAMESPACE_MARKER_KEY, folder):
        repo.dump_refs()


def test_a_damaged_table_in_the_way_leaves_the_dump_before_it(first: Lake, folder: Path) -> None:
    repo = built(first, folder)
    before = repo.dump_refs().manifest
    repo.create_tag("v2", "trunk")
    after = repo.dump_refs().manifest.tags_meta_range_id
    table = folder / "ns" / "_lakefs" / after
    table.write_bytes(table.read_bytes()[:-1])
    repo.delete_tag("v2")
    assert repo.dump_refs().manifest == before
    repo.create_tag("v2", "trunk")
    with refused(first, CorruptFileError, after, folder):
        repo.dump_refs()


# --- what is refused ------------------------------------------------------------------------------


def restore(lake: Lake, folder: Path, **options: Any) -> Callable[[], object]:
    return lambda: lake.restore_repository(
        options.pop("name", a_name()), str(folder / "ns"), **options
    )


def test_bad_wishes_make_nothing(first: Lake, second: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    taken = second.create_repository(a_name(), str(folder / "other")).name
    for error, words, options in (
        (InvalidNameError, "cannot be the name of a repository", {"name": "A"}),
        (InvalidNameError, "cannot be the name of a branch", {"default_branch": "a/b"}),
        (InvalidInputError, "range_records must be 1 to", {"range_records": 0}),
        (InvalidInputError, "is 3 in this dump", {"range_records": 4}),
        (InvalidInputError, "no branch 'main'", {"default_branch": "main"}),
        (AlreadyExistsError, "choose another name", {"name": taken}),
    ):
        with refused(second, error, words, folder):
            restore(second, folder, **options)()
    restored = restore(second, folder, default_branch="dev:x", range_records=3)()
    assert isinstance(restored, Repository)
    assert restored.info.default_branch == "dev:x"


def test_the_namespace_of_a_living_repository_makes_nothing(first: Lake, folder: Path) -> None:
    built(first, folder).dump_refs()
    with refused(first, NamespaceInUseError, "overlaps", folder):
        restore(first, folder)()


def test_a_namespace_without_a_dump_makes_nothing(first: Lake, second: Lake, folder: Path) -> None:
    built(first, folder)
    with refused(second, MissingFileError, "no dump", folder):
        restore(second, folder)()
    with refused(second, InvalidInputError, "nowhere", folder):
        second.restore_repository("new", str(folder / "nowhere"))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"default_branch": "trunk", "range_records": 0}'])
def test_settings_that_are_none_make_nothing(small_lake: Lake, folder: Path, body: bytes) -> None:
    built(small_lake, folder).dump_refs()
    (folder / "ns" / DUMP_SETTINGS_KEY).write_bytes(body)
    lake = memory_lake()
    with refused(lake, CorruptFileError, DUMP_SETTINGS_KEY, folder):
        restore(lake, folder)()


def test_a_mark_that_cannot_be_put_makes_nothing(first: Lake, second: Lake, folder: Path) -> None:
    repo = built(first, folder)
    repo.dump_refs()
    (folder / "ns" / NAMESPACE_MARKER_KEY).unlink()
    (folder / "ns" / NAMESPACE_MARKER_KEY / "in-the-way").mkdir(parents=True)
    with refused(second, StoreError, NAMESPACE_MARKER_KEY, folder):
        restore(second, folder)()
    assert namespace_of(repo) == folder / "ns"
