"""What a conflict shows of its sides: the objects, and the commits that made them."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Commit, Lake, MergeConflictError, Repository, ThreeWayRow
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.testing.lakes import commit_all, namespace_of
from sparklake.verbs.base.open_trees import TreeCaches
from sparklake.verbs.base.snapshot import RangeLayer
from sparklake.verbs.history.origins import WalkLimits, last_changes
from sparklake.verbs.merges.three_way import CONFLICTS_WITH_COMMITS
from tests.support.random_history import BRANCHES, PATHS, random_history
from tests.support.seeds import seeds

NO_LIMITS = WalkLimits(commits=1_000_000, trees=1_000_000)


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)


def conflicts_of(verb: Callable[[], object]) -> Sequence[ThreeWayRow]:
    with pytest.raises(MergeConflictError) as raised:
        verb()
    again: MergeConflictError = pickle.loads(pickle.dumps(raised.value))
    assert again.conflicts == raised.value.conflicts
    return again.conflicts  # type: ignore[return-value]  # errors know no rows


class Sides:
    """Two branches that changed `a`, and of which main removed `b`."""

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.main = repo.branch("main")
        self.base = commit_all(self.main, {"a": b"base", "b": b"base", "c": b"1"}, "base")
        self.dev = repo.create_branch("dev", "main")
        self.ours = commit_all(self.main, {"a": b"ours"}, "our a")
        self.removal = commit_all(self.main, {"b": None}, "no more b")
        commit_all(self.main, {"c": b"2"}, "other")
        self.first = commit_all(self.dev, {"a": b"first"}, "first a")
        self.theirs = commit_all(self.dev, {"a": b"theirs!", "b": b"b"}, "their a and b")
        commit_all(self.dev, {"d": b"1"}, "last")

    def check(self, rows: Sequence[ThreeWayRow]) -> None:
        a, b = rows
        assert (a.path, b.path) == ("a", "b")
        assert (a.source_commit, a.dest_commit) == (self.theirs, self.ours)
        assert (b.source_commit, b.dest_commit) == (self.theirs, self.removal)
        for row, source, dest in ((a, "dev", "main"), (b, "dev", None)):
            for side, ref in ((row.source, source), (row.dest, dest)):
                found = None if ref is None else self.repo.stat(ref, row.path)
                assert (side is None) == (found is None)
                if side and found:
                    shown = (found.size, found.checksum, found.mtime)
                    assert (side.size, side.checksum, side.mtime) == shown
        assert a.dest
        assert "removed, by tester in " in b.dest_text
        assert f"4 bytes, 20{a.dest_text[11:]}" == a.dest_text
        assert f"{a.dest.checksum[:8]}, by tester in {self.ours.id[:12]}" in a.dest_text


def test_conflicts_show_who_made_each_side(repo: Repository) -> None:
    sides = Sides(repo)
    sides.check(conflicts_of(lambda: repo.merge("dev", "main")))
    sides.check(repo.preview_merge("dev", "main").conflicts)
    shown = list(repo.diff("main", "dev", three_way=True))
    (a, *_), kinds = shown, [(each.path, each.type.value) for each in shown]
    assert kinds == [("a", "conflict"), ("b", "conflict"), ("d", "added")]
    previewed = repo.preview_merge("dev", "main").conflicts[0]
    assert (a.base, a.source, a.dest) == (previewed.base, previewed.source, previewed.dest)
    # A diff may have millions of rows, so it looks up no commits.
    assert (a.source_commit, a.dest_commit) == (None, None)
    assert (shown[2].base, shown[2].dest) == (None, None)


def test_so_do_those_of_revert_cherry_pick_and_rebase(repo: Repository) -> None:
    sides = Sides(repo)
    a, b = conflicts_of(lambda: sides.main.cherry_pick(sides.theirs.id))
    assert (a.source_commit, a.dest_commit) == (sides.theirs, sides.ours)
    assert (b.source_commit, b.dest_commit) == (sides.theirs, sides.removal)
    (a,) = conflicts_of(lambda: sides.dev.revert(sides.first.id))
    # The state before the first commit, and what has followed it.
    assert (a.source_commit, a.dest_commit) == (sides.base, sides.theirs)
    (a,) = conflicts_of(lambda: sides.dev.rebase("main"))
    assert (a.source_commit, a.dest_commit) == (sides.first, sides.ours)


def test_a_commit_that_is_not_published_is_not_named(repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"a": b"1"}, "1")
    commit_all(main, {"a": b"2"}, "2")
    third = commit_all(main, {"a": b"3"}, "3")
    # The first revert makes `a` 2 in a commit that nobody will see.
    (row,) = conflicts_of(lambda: main.revert("main", "main~2"))
    assert (row.source, row.dest_commit) == (None, None)
    assert row.dest
    assert row.dest.size == repo.stat("main~1", "a").size
    (row,) = conflicts_of(lambda: main.revert("main~2"))
    assert row.dest_commit == third


@pytest.mark.parametrize("seed", seeds(6, always=2))
def test_last_changes_are_those_of_brute_force(small_lake: Lake, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    name = f"r-{uuid4().hex}"
    size = chance.choice([1, 2, 64])
    repo = small_lake.create_repository(name, str(folder / name), range_records=size)
    known = random_history(repo, chance)
    removed = 0
    for branch in BRANCHES:
        head = repo.resolve(branch)
        asked = record_ids(repo, head, PATHS)
        found = last_changes(repo._context, head.id, asked, NO_LIMITS)
        expected = [next(iter(known.log(head.id, path=key.decode())), None) for key, _ in asked]
        assert [each and each.id for each in found] == expected
        pairs = zip(asked, found, strict=True)
        removed += sum(each is None and made is not None for (_, each), made in pairs)
        others = [(key, bytes(32)) for key, _ in asked]
        assert set(last_changes(repo._context, head.id, others, NO_LIMITS)) == {None}
    assert removed


def record_ids(
    repo: Repository, head: Commit, paths: Sequence[str]
) -> list[tuple[bytes, bytes | None]]:
    layer = RangeLayer(repo._context.open_ranges, repo._context.tree(head).ranges)
    keys = sorted(each.encode() for each in paths)
    return [(key, (stored := layer.find(key)) and stored[-32:]) for key in keys]


def test_a_search_has_limits(repo: Repository) -> None:
    main = repo.branch("main")
    made = commit_all(main, {"a": b"1"}, "a")
    for number in range(30):
        commit_all(main, {f"k/{number:02}": b"x"}, f"{number}")
    asked = record_ids(repo, main.head, ["a"])
    context = repo._context
    assert last_changes(context, main.head.id, asked, NO_LIMITS) == [made]
    assert last_changes(context, main.head.id, asked, WalkLimits(20, 100)) == [None]
    bare = WalkLimits(100, 20)
    assert last_changes(context, main.head.id, asked, bare) == [made], "summaries open no trees"
    repo._context.refs.commits.change_summaries = lambda commit_ids: {}  # type: ignore[method-assign]
    assert last_changes(context, main.head.id, asked, bare) == [None]


def test_only_the_first_conflicts_have_commits(repo: Repository) -> None:
    main = repo.branch("main")
    count = CONFLICTS_WITH_COMMITS + 20
    commit_all(main, {"first": b""}, "first")
    dev = repo.create_branch("dev", "main")
    ours = commit_all(main, {f"{number:03}": b"1" for number in range(count)}, "ours")
    theirs = commit_all(dev, {f"{number:03}": b"22" for number in range(count)}, "theirs")
    rows = conflicts_of(lambda: repo.merge("dev", "main"))
    assert len(rows) == count
    found = [(row.source_commit, row.dest_commit) for row in rows]
    assert found[:CONFLICTS_WITH_COMMITS] == [(theirs, ours)] * CONFLICTS_WITH_COMMITS
    assert set(found[CONFLICTS_WITH_COMMITS:]) == {(None, None)}


def test_a_tree_that_is_gone_does_not_hide_conflicts(small_lake: Lake, repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"a": b"base"}, "base")
    dev = repo.create_branch("dev", "main")
    theirs = commit_all(dev, {"a": b"theirs"}, "theirs")
    lost = commit_all(main, {"a": b"first"}, "first")
    commit_all(main, {"a": b"ours"}, "ours")
    (namespace_of(repo) / tree_file_key(lost.meta_range_id)).unlink()
    context = repo._context
    fresh = Repository(replace(context, caches=TreeCaches(context.workspace, context.refs)))
    (row,) = conflicts_of(lambda: fresh.merge("dev", "main"))
    assert (row.path, row.source_commit, row.dest_commit) == ("a", theirs, None)
