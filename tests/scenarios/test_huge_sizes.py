"""Sizes whose sum passes 64 bits: the numbers stop there, and none becomes negative."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Branch, Repository
from sparklake.graveler.sums import MAX_SUM
from sparklake.testing.lakes import commit_all, put_all
from tests.support.lakes import stage_sizes

HUGE = {f"a/{at}": MAX_SUM for at in range(3)} | {"b/0": MAX_SUM - 1, "b/1": 1, "c": 7}
FOLDERS = {"a/": MAX_SUM, "b/": MAX_SUM, "c": 7}


@pytest.fixture
def grown(main: Branch, repo: Repository) -> Repository:
    commit_all(main, {"z": b"0"}, "base")
    repo.create_branch("dev", "main")
    stage_sizes(repo.branch("dev"), HUGE)
    repo.branch("dev").commit("huge")
    commit_all(main, {"other": b"1"}, "main")
    return repo


def test_rolled_up_differences(grown: Repository) -> None:
    found = grown.diff("dev~1", "dev")
    total = found.summary()
    assert (total.added, total.bytes_added, total.bytes_removed) == (len(HUGE), MAX_SUM, 0)
    assert {each.path: each.bytes_added for each in found.by_folder()} == FOLDERS
    table = found.by_folder().to_arrow()
    assert table["bytes_added"].to_pylist() == list(FOLDERS.values())
    tree = found.tree()
    assert tree.total.bytes_added == MAX_SUM
    assert {name: each.total.bytes_added for name, each in tree.children.items()} == FOLDERS
    assert grown.diff("dev", "dev~1").summary().bytes_removed == MAX_SUM


def test_a_preview(grown: Repository) -> None:
    added = grown.preview_merge("dev", "main")
    assert (added.added, added.added_bytes) == (len(HUGE), MAX_SUM)
    put_all(grown.branch("dev"), dict.fromkeys(HUGE))
    grown.merge("dev~0", "main")
    grown.branch("dev").commit("gone")
    removed = grown.preview_merge("dev", "main")
    assert (removed.removed, removed.removed_bytes) == (len(HUGE), MAX_SUM)


def test_a_manifest_of_an_export(grown: Repository, folder: Path) -> None:
    made = grown.manifest("dev", str(folder / "out"))
    assert (made.added, made.size) == (len(HUGE) + 1, MAX_SUM)


def test_a_purge(grown: Repository) -> None:
    found = grown.purge(["a/", "b/"], commit=True, dry_run=True)
    assert (found.counts.paths, found.counts.size) == (5, MAX_SUM)
