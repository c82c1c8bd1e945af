"""Trees whose ranges end where ours would not, as lakeFS's do, are committed to and merged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Repository
from sparklake.graveler.entries import Entry
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake
from tests.support.foreign import foreign_record, restored_tree
from tests.support.lakes import put_sizes, stage_sizes

KEYS = [f"k{number:02}" for number in range(24)]

sizes = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), min_size=1, max_size=24)
changes = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(1, 9), max_size=6)


def restored(folder: Path, tree: dict[str, int], cuts: set[int]) -> Repository:
    """Restore a repository of one tree, whose ranges end after some positions."""
    records = [
        foreign_record(path, Entry(f"data/{path}", size, f"s{size}", 0))
        for path, size in sorted(tree.items())
    ]
    return restored_tree(memory_lake(), folder, records, cuts)


def listed(repo: Repository, ref: str) -> dict[str, int]:
    return {each.path: each.size for each in repo.objects(ref)}


def changed(repo: Repository, branch: str, change: dict[str, int | None], *, in_bulk: bool) -> None:
    """Stage changes as rows or as a run, and commit them."""
    before = listed(repo, branch)
    (stage_sizes if in_bulk else put_sizes)(repo.branch(branch), change)
    after = applied(before, change)
    assert listed(repo, branch) == after
    repo.branch(branch).commit("change")
    assert listed(repo, branch) == after


def applied(tree: dict[str, int], change: dict[str, int | None]) -> dict[str, int]:
    together = {**tree, **change}
    return {path: size for path, size in sorted(together.items()) if size is not None}


@pytest.mark.system
@given(
    tree=sizes,
    cuts=st.sets(st.integers(1, 23)),
    ours=changes,
    theirs=changes,
    in_bulk=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_commits_diffs_and_merges(
    scratch: Path,
    tree: dict[str, int],
    cuts: set[int],
    ours: dict[str, int | None],
    theirs: dict[str, int | None],
    in_bulk: bool,
) -> None:
    # Each side changes something, and not the same.
    ours = {"a": 1} | {path: size for path, size in ours.items() if size or path in tree}
    theirs = {"z": 1} | {
        path: size for path, size in theirs.items() if path not in ours and (size or path in tree)
    }
    with memory_folder() as folder:
        repo = restored(folder, tree, cuts)
        assert listed(repo, "main") == tree
        repo.create_branch("dev", "main")
        changed(repo, "main", ours, in_bulk=in_bulk)
        changed(repo, "dev", theirs, in_bulk=in_bulk)
        seen = {each.path for each in repo.diff("main~1", "main")}
        differs = {path for path in ours if ours[path] != tree.get(path)}
        assert differs <= seen <= set(ours)
        repo.merge("dev", "main")
        assert listed(repo, "main") == applied(tree, ours | theirs)
        assert listed(repo, "main~2") == tree


def test_all_is_deleted_and_comes_again(scratch: Path) -> None:
    with memory_folder() as folder:
        repo = restored(folder, dict.fromkeys(KEYS, 1), {3, 4, 20})
        changed(repo, "main", dict.fromkeys(KEYS), in_bulk=False)
        assert repo.resolve("main").meta_range_id == ""
        changed(repo, "main", dict.fromkeys(KEYS, 2), in_bulk=True)
        repo.dump_refs()
