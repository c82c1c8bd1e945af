"""Rebase against merges of plain dicts, and what a failure leaves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparklake import Branch, Commit, Lake, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
)
from sparklake.graveler.ports import BranchMove
from sparklake.testing.lakes import TESTER, commit_all, contents
from sparklake.testing.memory import MemoryBranches
from tests.support.graphs import grow
from tests.support.lakes import refs_of
from tests.support.oracle import merged
from tests.support.seeds import seeds

Tree = dict[str, bytes]
OBJECTS: Tree = {f"k/{number:03}": b"%d" % number for number in range(40)}


@pytest.fixture
def main(main: Branch) -> Branch:
    commit_all(main, dict(OBJECTS), "base")
    return main


@pytest.fixture
def dev(repo: Repository, main: Branch) -> Branch:
    return repo.create_branch("dev", "main")


def origins(commits: list[Commit]) -> list[str]:
    return [each.metadata["cherry-pick-origin"] for each in commits]


def test_own_commits_are_made_once_more(repo: Repository, main: Branch, dev: Branch) -> None:
    first = dev_commit(dev, {"k/001": b"x", "new": b"n"}, "first\n\nmore", "ann", {"ticket": "1"})
    second = dev_commit(dev, {"k/002": None}, "second", "bob", {})
    onto = commit_all(main, {"k/030": b"main", "other": b"o"}, "theirs")
    made = dev.rebase("main")
    assert dev.head == made[-1]
    assert [each.parents for each in made] == [(onto.id,), (made[0].id,)]
    assert [each.message for each in made] == [first.message, second.message]
    assert [each.committer for each in made] == ["ann", "bob"]
    assert made[0].metadata == {
        "ticket": "1",
        "cherry-pick-origin": first.id,
        "cherry-pick-committer": "ann",
    }
    expected = {**OBJECTS, "k/001": b"x", "new": b"n", "k/030": b"main", "other": b"o"}
    assert contents(repo, "dev~1") == expected
    del expected["k/002"]
    assert contents(repo, "dev") == expected
    assert main.head == onto
    move = repo.operations(1, "dev")[0]
    found = (move.verb, move.who, move.from_commit, move.to_commit)
    assert found == ("rebase", TESTER, second.id, made[-1].id)
    with pytest.raises(NoChangesError, match="nothing to rebase"):
        dev.rebase("main")
    assert dev.undo() == second
    assert contents(repo, second.id) == contents(repo, "dev")


def dev_commit(
    dev: Branch, changes: dict[str, bytes | None], message: str, who: str, meta: dict[str, str]
) -> Commit:
    for path, body in changes.items():
        dev.delete(path) if body is None else dev.put(path, body)
    return dev.commit(message, who, meta)


def test_a_branch_that_is_behind_moves_forward(repo: Repository, main: Branch, dev: Branch) -> None:
    onto = commit_all(main, {"a": b"a"}, "on")
    assert dev.rebase("main") == []
    assert dev.head == onto
    assert repo.operations(1, "dev")[0].verb == "rebase"


@pytest.mark.parametrize("onto", ["main", "dev", "dev~1", "dev~2"])
def test_where_it_stands_there_is_nothing_to_do(repo: Repository, dev: Branch, onto: str) -> None:
    commit_all(dev, {"a": b"a"}, "one")
    commit_all(dev, {"a": b"b"}, "two")
    before = refs_of(repo)
    with pytest.raises(NoChangesError, match="is already based on commit"):
        dev.rebase(onto)
    assert refs_of(repo) == before


def test_what_becomes_empty_is_left_out(repo: Repository, main: Branch, dev: Branch) -> None:
    same = commit_all(dev, {"k/001": b"same"}, "same")
    empty = dev.commit("empty", allow_empty=True)
    own = commit_all(dev, {"k/002": b"own"}, "own")
    commit_all(main, {"k/001": b"same"}, "the same")
    made = dev.rebase("main")
    assert origins(made) == [empty.id, own.id]
    assert same.id not in {each.id for each in repo.log("dev")}
    only = repo.create_branch("only", same.id)
    assert only.rebase("main") == []
    assert only.head == main.head


def test_merges_become_part_of_the_line(repo: Repository, main: Branch, dev: Branch) -> None:
    one = commit_all(dev, {"k/001": b"one"}, "one")
    commit_all(main, {"k/020": b"main"}, "main 1")
    repo.merge("main", "dev")
    side = repo.create_branch("side", "dev")
    commit_all(side, {"k/030": b"side"}, "side 1")
    commit_all(side, {"k/031": b"side"}, "side 2")
    two = commit_all(dev, {"k/002": b"two"}, "two")
    merge = repo.merge("side", "dev")
    onto = commit_all(main, {"k/021": b"main"}, "main 2")
    expected = {**contents(repo, "dev"), "k/021": b"main"}
    made = dev.rebase("main")
    assert origins(made) == [one.id, two.id, merge.id]
    assert [each.id for each in repo.log("dev", first_parent=True)][3] == onto.id
    assert all(len(each.parents) == 1 for each in made)
    assert contents(repo, "dev") == expected


def test_a_conflict_names_the_commit(repo: Repository, main: Branch, dev: Branch) -> None:
    commit_all(dev, {"k/001": b"fine"}, "fine")
    bad = commit_all(dev, {"k/002": b"dev", "k/003": b"dev"}, "bad")
    commit_all(main, {"k/002": b"main", "k/003": None}, "main")
    before = refs_of(repo)
    with pytest.raises(
        MergeConflictError, match=f"cannot rebase {bad.id[:12]}: 2 conflicting obj"
    ) as raised:
        dev.rebase("main")
    assert [each.path for each in raised.value.conflicts] == ["k/002", "k/003"]  # type: ignore[attr-defined]
    assert refs_of(repo) == before
    dev.rebase("main", strategy="source-wins")
    assert repo.read_bytes("dev", "k/003") == b"dev"


def test_what_is_refused(repo: Repository, main: Branch, dev: Branch) -> None:
    commit_all(main, {"a": b"a"}, "on")
    grow(repo, {"apart": []})
    dev.put("staged", b"staged")
    before = refs_of(repo)
    with pytest.raises(DirtyBranchError, match="before you rebase it"):
        dev.rebase("main")
    with pytest.raises(RefNotFoundError):
        dev.rebase("nothing")
    with pytest.raises(InvalidInputError, match="is not a merge strategy"):
        dev.rebase("main", strategy="ours")
    with pytest.raises(RefNotFoundError, match="no common ancestor"):
        main.rebase("apart")
    assert refs_of(repo) == before


def test_who_loses_a_race_takes_the_new_commit_along(
    small_lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)
    main, move, late = repo.branch("main"), MemoryBranches.move, [True]
    commit_all(main, dict(OBJECTS), "base")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/001": b"one"}, "one")
    commit_all(main, {"k/020": b"main"}, "main")

    def interrupted(branches: MemoryBranches, wanted: BranchMove) -> None:
        if late and wanted.verb == "rebase":
            late.clear()
            commit_all(dev, {"k/002": b"late"}, "late")
        move(branches, wanted)

    monkeypatch.setattr(MemoryBranches, "move", interrupted)
    made = dev.rebase("main")
    assert [each.message for each in made] == ["one", "late"]
    expected = {**OBJECTS, "k/001": b"one", "k/002": b"late", "k/020": b"main"}
    assert contents(repo, "dev") == expected


@pytest.mark.parametrize("seed", seeds(8, always=2))
def test_random_rebases_as_dicts_would(small_lake: Lake, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    repo = small_lake.create_repository(f"r-{seed}", str(folder / "r"), range_records=2)
    main = repo.branch("main")
    tree: Tree = {f"p{number:02}": b"0" for number in range(12)}
    commit_all(main, dict(tree), "base")
    dev = repo.create_branch("dev", "main")
    trees = {"main": [tree], "dev": [tree]}
    for step in range(10):
        branch = chance.choice([main, dev])
        latest = trees[branch.name][-1]
        paths = chance.sample(sorted(tree), chance.randint(1, 2))
        changes = {path: chance.choice([None, b"1", b"2"]) for path in paths}
        after = {path: body for path, body in {**latest, **changes}.items() if body is not None}
        if after != latest:
            gone = {path: body for path, body in changes.items() if body or path in latest}
            commit_all(branch, gone, f"step {step}")
            trees[branch.name].append(after)
    strategy = chance.choice([None, "source-wins", "dest-wins"])
    head, left, conflicts = trees["main"][-1], 0, []
    for before, after in zip(trees["dev"], trees["dev"][1:], strict=False):
        winner = after if strategy == "source-wins" else head
        result, found = merged(before, after, head, winner)  # type: ignore[arg-type]
        conflicts += [] if conflicts or strategy else found
        left += result != head
        head = result  # type: ignore[assignment]
    if len(trees["main"]) == 1:
        with pytest.raises(NoChangesError):
            dev.rebase("main")
    elif conflicts:
        with pytest.raises(MergeConflictError) as raised:
            dev.rebase("main", strategy)
        assert [each.path for each in raised.value.conflicts] == conflicts  # type: ignore[attr-defined]
        assert contents(repo, "dev") == trees["dev"][-1]
    else:
        assert len(dev.rebase("main", strategy)) == left
        assert contents(repo, "dev") == head
        assert len([*repo.log("dev", first_parent=True)]) == 1 + len(trees["main"]) + left
