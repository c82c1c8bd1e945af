"""Merges after criss-crosses: their base is what the best common ancestors are merged to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Commit, Lake, Repository
from sparklake.errors import MergeConflictError, NoChangesError
from sparklake.graveler.commits import new_commit
from sparklake.graveler.graph.virtual_base import disagreements
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import BranchMove
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.rows.diffs import SideObject
from sparklake.testing.lakes import TESTER
from tests.support.lakes import refs_of, stage_sizes
from tests.support.recursive import History, base_tree, best_bases, criss_crossed

Sizes = dict[str, int]

CRISS_CROSS: History = {"a": (), "l": ("a",), "r": ("a",), "x": ("l", "r"), "y": ("r", "l")}
START = 1_700_000_000


@pytest.fixture(params=["memory", "postgres"])
def repo(request: pytest.FixtureRequest, folder: Path) -> Repository:
    lake: Lake = request.getfixturevalue("small_lake" if request.param == "memory" else "lake")
    return lake.create_repository(f"r-{uuid4().hex}", str(folder / "namespace"), range_records=2)


def planted(
    repo: Repository, history: History, trees: Mapping[str, Sizes], suffix: str = ""
) -> dict[str, Commit]:
    """Add commits of any trees, parents first, each with a branch of its name and the suffix."""
    branches, first = repo._context.refs.branches, repo.resolve("main")
    made: dict[str, Commit] = {}
    for number, (name, parents) in enumerate(history.items()):
        branch = repo.create_branch(name + suffix, "main")
        tree = MetaRangeId("")
        if trees[name]:
            stage_sizes(branch, trees[name])
            tree = branch.commit("tree").meta_range_id
        made[name] = each = new_commit(
            parents=[made[parent] for parent in parents] or [first],
            committer=TESTER,
            message=name + suffix,
            creation_date=START + number,
            meta_range_id=tree,
        )
        branches.move(
            BranchMove(branch.name, branch.head.id, each.id, "test", TESTER, (each,), fence=0)
        )
    return made


def sizes(repo: Repository, ref: str) -> Sizes:
    return {each.path: each.size for each in repo.objects(ref)}


def rows(repo: Repository, dest: str, source: str) -> list[tuple[str, str, SideObject | None]]:
    diff = repo.diff(dest, source, three_way=True)
    return [(each.path, each.type.value, each.base) for each in diff]


def agreed(repo: Repository, ref: str) -> bool:
    """Return whether no record of a tree says that ancestors disagree."""
    blocks = read_ranges(repo._context.store, tuple(repo.tree(ref).ranges))
    return not any(disagreements(block.encoded.stored_array()).any() for block in blocks)


BEFORE = {f"k{number:02}": 1 for number in range(30)}


def test_what_one_ancestor_undid_stays_undone(repo: Repository) -> None:
    """Over either ancestor alone, the merge would be a conflict or bring back what is gone."""
    trees = {
        "a": {**BEFORE},
        "l": {**BEFORE, "k05": 2},
        "r": {**BEFORE, "k20": 3},
        "x": {**BEFORE, "k05": 2, "k20": 3, "x": 1},
        "y": {**BEFORE, "k05": 4, "k20": 5, "y": 1},
    }
    planted(repo, CRISS_CROSS, trees)
    assert rows(repo, "y", "x") == [("x", "added", None)]
    explained = repo.plan_merge("x", "y")
    made = repo.merge("x", "y")
    assert sizes(repo, "y") == {**trees["y"], "x": 1}
    assert made.parents == tuple(repo.resolve(ref).id for ref in ("y~1", "x"))
    assert explained.verb == "merge"


def test_keys_on_which_ancestors_disagree_are_in_conflict(repo: Repository) -> None:
    trees = {
        "a": {**BEFORE},
        "l": {**BEFORE, "k05": 2, "k06": 2, "k07": 2},
        "r": {**BEFORE, "k05": 3, "k06": 3, "k07": 3},
        # Each took the other's change of k05; on k06 they agree, k07 they left as theirs.
        "x": {**BEFORE, "k05": 3, "k06": 3, "k07": 2, "k01": 9},
        "y": {**BEFORE, "k05": 2, "k06": 3, "k07": 3, "k02": 9},
    }
    planted(repo, CRISS_CROSS, trees)
    expected = [("k01", "changed", None), ("k05", "conflict", None), ("k07", "conflict", None)]
    assert rows(repo, "y", "x") == expected
    before = refs_of(repo)
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("x", "y")
    found = [(each.path, each.base) for each in raised.value.conflicts]  # type: ignore[attr-defined]
    assert found == [("k05", None), ("k07", None)]
    assert refs_of(repo) == before
    repo.merge("x", "y", "dest-wins")
    assert sizes(repo, "y") == {**trees["y"], "k01": 9}
    assert agreed(repo, "y")
    repo.merge("y~1", "x", "dest-wins")
    assert sizes(repo, "x") == {**trees["x"], "k02": 9}
    assert agreed(repo, "x")


def test_to_take_a_base_on_which_ancestors_disagree_deletes_nothing(repo: Repository) -> None:
    trees = {
        "a": {**BEFORE},
        "l": {**BEFORE, "k05": 2},
        "r": {**BEFORE, "k05": 3},
        "x": {**BEFORE, "k05": 3, "k01": 8, "new": 1},
        "y": {**BEFORE, "k05": 2, "k01": 9, "new": 2},
    }
    planted(repo, CRISS_CROSS, trees)
    strategy = "tests.support.strategies:bases"
    before = refs_of(repo)
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("x", "y", strategy)
    assert [each.path for each in raised.value.conflicts] == ["k05"]  # type: ignore[attr-defined]
    assert refs_of(repo) == before
    shown = repo.preview_merge("x", "y", strategy)
    assert (shown.changed, shown.removed, shown.unresolved) == (1, 1, 1)
    repo.merge("x", "y", strategy, rules={"k05": "dest-wins"})
    assert sizes(repo, "y") == {**BEFORE, "k05": 2}
    assert agreed(repo, "y")


def test_nothing_to_merge_is_judged_by_the_same_base(repo: Repository) -> None:
    both = {"k1": 2, "k2": 2}
    trees = {"a": {"k1": 1, "k2": 1}, "l": {"k1": 2, "k2": 1}, "r": {"k1": 1, "k2": 2}}
    planted(repo, CRISS_CROSS, {**trees, "x": both, "y": {**both, "y": 1}})
    with pytest.raises(NoChangesError, match="already has all changes"):
        repo.merge("x", "y")
    with pytest.raises(NoChangesError, match="already has all changes"):
        repo.plan_merge("x", "y")
    assert rows(repo, "y", "x") == []


def test_a_merge_that_loses_a_race_makes_the_base_once(repo: Repository) -> None:
    trees = {
        "a": {**BEFORE},
        "l": {**BEFORE, "k05": 2, "k06": 2},
        "r": {**BEFORE, "k05": 3, "k20": 3},
        "x": {**BEFORE, "k05": 3, "k06": 2, "k20": 3, "x": 1},
        "y": {**BEFORE, "k05": 3, "k06": 2, "k20": 3, "y": 1},
    }
    planted(repo, CRISS_CROSS, trees)
    branches, merge, late = repo._context.refs.branches, partial(repo.merge, "x", "y"), [True]
    move = type(branches).move

    def interrupted(own: object, wanted: BranchMove) -> None:
        if wanted.verb == "merge" and late:
            late.clear()
            branch = repo.branch("y")
            stage_sizes(branch, {"late": 7})
            branch.commit("late")
        move(branches, wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(branches), "move", interrupted)
        merge()
    assert sizes(repo, "y") == {**trees["y"], "x": 1, "late": 7}


@pytest.mark.system
@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_random_criss_crosses_as_dicts_would(repo: Repository, seed: int) -> None:
    chance = random.Random(seed)
    for round_ in range(5 if seed < 3 else 150):
        bases: list[str] = []
        while len(bases) < 2:
            history, source, dest = criss_crossed(chance, chance.randint(2, 3))
            bases = best_bases(history, [source], [dest])
        trees: dict[str, Sizes] = {}
        for name in history:
            found = {f"k{key:02}": chance.choice((0, 1, 1, 2, 3)) for key in range(12)}
            trees[name] = {path: size for path, size in found.items() if size}
        suffix = f"-{seed}-{round_}"
        commits = planted(repo, history, trees, suffix)
        # Best bases go by ids, as the commits really have them.
        ids = {name: each.id for name, each in commits.items()}
        real = {
            ids[name]: tuple(ids[each] for each in parents) for name, parents in history.items()
        }
        by_id = {ids[name]: tree for name, tree in trees.items()}
        base = base_tree(real, by_id, [ids[source]], [ids[dest]])
        check_merge(repo, base, (source + suffix, trees[source]), (dest + suffix, trees[dest]))


def check_merge(
    repo: Repository, base: Mapping[str, object], source: tuple[str, Sizes], dest: tuple[str, Sizes]
) -> None:
    (theirs, after), (ours, before) = source, dest
    paths = sorted({*base, *after, *before})
    kinds = {}
    for path in paths:
        was, new, old = base.get(path), after.get(path), before.get(path)
        if new not in (old, was):
            taken = old == was
            changed = "removed" if new is None else "added" if old is None else "changed"
            kinds[path] = changed if taken else "conflict"
    assert {path: kind for path, kind, _ in rows(repo, ours, theirs)} == kinds
    conflicts = [path for path, kind in kinds.items() if kind == "conflict"]
    if base == after:
        with pytest.raises(NoChangesError):
            repo.merge(theirs, ours)
        return
    if conflicts:
        with pytest.raises(MergeConflictError) as raised:
            repo.merge(theirs, ours)
        assert [each.path for each in raised.value.conflicts] == conflicts  # type: ignore[attr-defined]
    repo.merge(theirs, ours, "source-wins")
    merged = {path: after.get(path) if path in kinds else before.get(path) for path in paths}
    assert sizes(repo, ours) == {path: size for path, size in merged.items() if size is not None}
    assert agreed(repo, ours)
