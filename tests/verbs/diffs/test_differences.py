"""Differences by folder, in all and as a tree: against a plain dict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError
from sparklake.rows.diffs import COUNTS, FolderDiff
from sparklake.testing.lakes import commit_all
from sparklake.verbs.diffs.differences import DiffTree
from tests.support.lakes import put_sizes, stage_sizes
from tests.support.seeds import seeds

PATHS = [
    f"{'/'.join(folders)}{name}"
    for folders in (
        [""],
        ["a", ""],
        ["a", "b", ""],
        ["a", "b", "é\n", ""],
        ["ab", ""],
        ["z", "", ""],
    )
    for name in ("x", "y", "ü")
]
PREFIXES = ("", "a", "a/", "a/b/", "z/", "none")
Sizes = Mapping[str, int]


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return small_lake.create_repository(uuid4().hex, str(folder / "lake"), range_records=2)


def group(path: str, prefix: str, depth: int) -> str:
    """Is the folder so many levels below a prefix, or the path where it is not so deep."""
    parts = path[len(prefix) :].split("/")
    return path if len(parts) <= depth else prefix + "/".join(parts[:depth]) + "/"


def expected(left: Sizes, right: Sizes, prefix: str, depth: int) -> list[FolderDiff]:
    found: dict[str, Counter[str]] = {}
    for path in left.keys() | right.keys():
        before, after = left.get(path), right.get(path)
        if before == after or not path.startswith(prefix):
            continue
        counts = found.setdefault(group(path, prefix, depth) if depth else "", Counter())
        counts["added" if before is None else "removed" if after is None else "changed"] += 1
        counts["bytes_added"] += after or 0
        counts["bytes_removed"] += before or 0
    return [
        FolderDiff(path, **found[path]) for path in sorted(found, key=lambda each: each.encode())
    ]


def total(rows: list[FolderDiff]) -> FolderDiff:
    sums = (sum(getattr(row, name) for row in rows) for name in COUNTS)
    return FolderDiff("", *sums)


def random_sizes(chance: random.Random) -> dict[str, int]:
    return {path: chance.randint(0, 3) for path in PATHS if chance.random() < 0.7}


@pytest.mark.parametrize("seed", seeds(5, always=1))
def test_folders_are_those_of_a_plain_dict(repo: Repository, seed: int) -> None:
    chance = random.Random(seed)
    left, right = random_sizes(chance), random_sizes(chance)
    main, dev = repo.branch("main"), repo.create_branch("dev", "main")
    for branch, sizes in ((main, left), (dev, right)):
        stage_sizes(branch, sizes)
        branch.commit("sizes")
    # The same once more as what is staged on a branch.
    staged = repo.create_branch("staged", "main")
    put_sizes(staged, dict.fromkeys(left.keys() - right.keys()))
    stage_sizes(staged, {path: size for path, size in right.items() if left.get(path) != size})
    for prefix in PREFIXES:
        for found in (repo.diff("main", "dev", prefix), staged.diff(prefix)):
            rows = expected(left, right, prefix, 0)
            assert found.summary() == total(rows)
            for depth in (1, 2, 3, 4):
                rows = expected(left, right, prefix, depth)
                assert list(found.by_folder(depth)) == rows, (prefix, depth)
                assert found.by_folder(depth).to_arrow().num_rows == len(rows)
                tree = found.tree(depth)
                assert tree.total == replace(total(rows), path=prefix)
                check_tree(tree, left, right)


def check_tree(tree: DiffTree, left: Sizes, right: Sizes) -> int:
    """Check that each folder of a tree has the numbers of all that is in it."""
    path = tree.total.path
    if path.endswith("/"):
        assert tree.total == replace(total(expected(left, right, path, 0)), path=path)
    nodes = 1 + sum(check_tree(each, left, right) for each in tree.children.values())
    assert tree.size == nodes
    assert all(name == each.total.path for name, each in tree.children.items())
    if tree.children:
        children = total([each.total for each in tree.children.values()])
        assert replace(children, path=path) == tree.total
    return nodes


def test_a_tree_leaves_out_its_deepest_levels(repo: Repository) -> None:
    dev = repo.create_branch("dev", "main")
    stage_sizes(dev, {f"{a}/{b}/{c}": 1 for a in "ab" for b in "cdef" for c in "ghijk"})
    dev.commit("many")
    found = repo.diff("main", "dev")
    assert [found.tree(3, most).size for most in (51, 50, 11, 10, 3, 1)] == [51, 11, 11, 3, 3, 3]
    assert found.tree(3, 1) == found.tree(1)
    assert {path: each.total.added for path, each in found.tree(1).children.items()} == {
        "a/": 20,
        "b/": 20,
    }


def test_three_dots_are_what_the_right_side_changed(repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"1"}, "base")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"b": b"22", "c": b"1"}, "dev")
    commit_all(main, {"a": None, "b": b"333"}, "main")

    def shown(**asked: bool) -> list[tuple[str, str]]:
        return [(row.type.value, row.path) for row in repo.diff("main", "dev", **asked)]

    assert shown(three_dot=True) == [("changed", "b"), ("added", "c")]
    assert shown(three_way=True) == [("conflict", "b"), ("added", "c")]
    assert shown() == [("added", "a"), ("changed", "b"), ("added", "c")]
    merging = repo.diff("main", "dev", three_way=True)
    assert merging.summary() == FolderDiff("", added=1, conflict=1, bytes_added=1)
    with pytest.raises(InvalidInputError, match="choose one of a three-way"):
        repo.diff("main", "dev", three_way=True, three_dot=True)
    for depth in (0, -1, 101):
        with pytest.raises(InvalidInputError, match="choose 1 to 100 levels"):
            repo.diff("main", "dev").by_folder(depth)
