"""Revert and cherry-pick against merges of plain dicts, and what a failure leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Commit, Lake, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    RaceLostError,
    RefNotFoundError,
)
from sparklake.graveler.commits import new_commit
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.testing.lakes import TESTER, commit_all, contents
from sparklake.testing.memory import MemoryBranches
from sparklake.verbs.base.runner import MAX_ATTEMPTS
from tests.support.lakes import refs_of, refused
from tests.support.oracle import merged
from tests.support.seeds import seeds

OBJECTS = {f"k/{number:03}": b"%d" % number for number in range(80)}


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)


@pytest.fixture
def main(repo: Repository) -> Branch:
    branch = repo.branch("main")
    commit_all(branch, dict(OBJECTS), "base")
    return branch


def moves(repo: Repository) -> list[tuple[str, str, str | None]]:
    return [(each.verb, each.who, each.to_commit) for each in repo.operations(1000)]


def diamond(repo: Repository, main: Branch) -> Commit:
    """Make main a merge: its first parent changed k/001, its second k/070, each alone."""
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/070": b"theirs"}, "theirs")
    commit_all(main, {"k/001": b"ours"}, "ours")
    return repo.merge("dev", "main")


# --- revert ---------------------------------------------------------------------------------------


def test_a_revert_is_a_commit_that_undoes_another(repo: Repository, main: Branch) -> None:
    changed = commit_all(main, {"k/001": b"x", "k/002": None, "new": b"n"}, "first line\n\nmore")
    (made,) = main.revert("main", metadata={"ticket": "1"})
    assert contents(repo, "main@") == OBJECTS
    assert made == main.head
    assert made.parents == (changed.id,)
    assert made.message == f"Revert first line\n\nThis reverts commit {changed.id}."
    assert (made.committer, made.metadata) == (TESTER, {"ticket": "1"})
    assert made.meta_range_id == repo.resolve("main~2").meta_range_id
    assert moves(repo)[0] == ("revert", TESTER, made.id)
    (again,) = main.revert("main", message="put it back", committer="joe")
    assert again.meta_range_id == changed.meta_range_id
    assert (again.message, again.committer, again.metadata) == ("put it back", "joe", {})


def test_a_revert_keeps_what_came_after(repo: Repository, main: Branch) -> None:
    bad = commit_all(main, {"k/001": b"bad", "k/002": None}, "bad")
    commit_all(main, {"k/003": b"good", "other": b"good"}, "good")
    main.revert(bad.id[:12])
    assert contents(repo, "main") == {**OBJECTS, "k/003": b"good", "other": b"good"}


def test_a_revert_of_the_head_reads_what_differs(repo: Repository, main: Branch) -> None:
    """There may be logs of Delta tables in it. Where they are not looked at, nothing is read."""
    bad = commit_all(main, {"k/001": b"bad", "k/070": None}, "bad")
    trees = (repo.resolve("main~1").meta_range_id, bad.meta_range_id)
    before, after = ({each.id for each in repo._context.trees.get(tree).ranges} for tree in trees)
    with recorded_reads() as read:
        main.revert("main")
    assert {*read} <= before ^ after
    assert 0 < len(read) < len(before)
    with recorded_reads() as read:
        main.revert("main", unite_tables=False)
    assert read == []


def test_several_reverts_are_one_move(repo: Repository, main: Branch) -> None:
    first = commit_all(main, {"k/001": b"one", "both": b"1"}, "one")
    second = commit_all(main, {"k/002": b"two", "both": b"2"}, "two")
    before = len(repo.operations(1000))
    one, two = main.revert(second.id, first.id)
    assert contents(repo, "main") == OBJECTS
    assert (one.parents, two.parents) == ((second.id,), (one.id,))
    assert main.head == two
    assert contents(repo, one.id) == {**OBJECTS, "k/001": b"one", "both": b"1"}
    assert len(repo.operations(1000)) == before + 1
    assert moves(repo)[0] == ("revert", TESTER, two.id)


def test_several_may_pass_through_an_empty_tree(repo: Repository) -> None:
    branch = repo.branch("main")
    first = commit_all(branch, {"k": b"1"}, "add")
    second = commit_all(branch, {"k": None}, "remove")
    branch.cherry_pick(first.id, second.id, first.id)
    assert contents(repo, "main") == {"k": b"1"}
    reverts = branch.revert("main", second.id)
    assert contents(repo, "main") == {"k": b"1"}
    assert contents(repo, reverts[0].id) == {}
    dev = repo.create_branch("dev", first.id)
    commit_all(dev, {"k": None}, "remove, too")
    commit_all(dev, {"n": b"n"}, "new")
    onto = repo.create_branch("onto", first.id).commit("empty", allow_empty=True)
    made = dev.rebase("onto")
    assert made[0].parents == (onto.id,)
    assert [contents(repo, each.id) for each in made] == [{}, {"n": b"n"}]


def test_of_several_reverts_all_are_made_or_none(
    small_lake: Lake, repo: Repository, main: Branch
) -> None:
    first = commit_all(main, {"k/001": b"one"}, "one")
    second = commit_all(main, {"k/001": b"two"}, "two")
    third = commit_all(main, {"k/003": b"three"}, "three")
    before = refs_of(repo)
    # Tables of what was reverted before may stay in the store; no ref knows of them.
    with pytest.raises(
        MergeConflictError, match=f"cannot revert {first.id[:12]}: 1 conflicting obj"
    ) as raised:
        main.revert(third.id, first.id)
    assert raised.value.count == 1
    with pytest.raises(NoChangesError, match=f"to revert {second.id[:12]} would change nothing"):
        main.revert(second.id, second.id)
    assert refs_of(repo) == before
    with refused(small_lake, RefNotFoundError, "nope"):
        main.revert(third.id, "nope")
    assert refs_of(repo) == before


def test_conflicts_of_a_revert_have_all_three_sides(
    small_lake: Lake, repo: Repository, main: Branch
) -> None:
    commit_all(main, {"k/001": b"then", "k/002": None, "new": b"then"}, "then")
    commit_all(main, {"k/001": b"now", "k/002": b"now", "new": b"now", "k/003": b"now"}, "now")
    sums = {
        (ref, path): repo.stat(ref, path).checksum
        for ref, path in [
            *((ref, path) for ref in ("main", "main~1", "main~2") for path in ("k/001",)),
            *(("main", "k/002"), ("main~2", "k/002"), ("main", "new"), ("main~1", "new")),
        ]
    }
    with refused(small_lake, MergeConflictError, "3 conflicting objects") as raised:
        main.revert("main~1")
    rows = [
        (each.path, *(side and side.checksum for side in (each.base, each.source, each.dest)))
        for each in raised.value.conflicts
    ]
    assert rows == [
        ("k/001", sums["main~1", "k/001"], sums["main~2", "k/001"], sums["main", "k/001"]),
        ("k/002", None, sums["main~2", "k/002"], sums["main", "k/002"]),
        ("new", sums["main~1", "new"], None, sums["main", "new"]),
    ]
    with refused(small_lake, NoChangesError, "would change nothing"):
        main.revert("main~1", strategy="dest-wins")
    main.revert("main~1", strategy="source-wins")
    assert contents(repo, "main") == {**OBJECTS, "k/003": b"now"}


@pytest.mark.parametrize(("number", "path"), [(1, "k/070"), (2, "k/001")])
def test_a_merge_is_reverted_as_seen_from_a_parent(
    repo: Repository, main: Branch, number: int, path: str
) -> None:
    diamond(repo, main)
    whole = contents(repo, "main")
    main.revert("main", parent_number=number)
    assert contents(repo, "main") == {**whole, path: OBJECTS[path]}
    assert main.head.meta_range_id == repo.resolve(f"main~1^{number}").meta_range_id


# --- cherry-pick ----------------------------------------------------------------------------------


def test_a_cherry_pick_records_its_origin(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/050": b"not wanted"}, "no")
    dev.put("k/001", b"wanted")
    origin = dev.commit("yes\n\nreally", committer="joe", metadata={"ticket": "1"})
    ours = commit_all(main, {"k/002": b"ours"}, "ours")
    (made,) = main.cherry_pick("dev")
    assert contents(repo, "main") == {**OBJECTS, "k/001": b"wanted", "k/002": b"ours"}
    assert made.parents == (ours.id,)
    assert (made.message, made.committer) == ("yes\n\nreally", TESTER)
    source = {"cherry-pick-origin": origin.id, "cherry-pick-committer": "joe"}
    assert made.metadata == {"ticket": "1", **source}
    assert moves(repo)[0] == ("cherry-pick", TESTER, made.id)

    other = repo.create_branch("other", "main~1")
    (made,) = other.cherry_pick(
        *("dev",),
        message="mine",
        committer="jane",
        metadata={"k": "v", "cherry-pick-origin": "forged"},
    )
    assert (made.message, made.committer) == ("mine", "jane")
    assert made.metadata == {"k": "v", **source}


def test_several_cherry_picks_are_one_move(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"a": b"1"}, "one")
    commit_all(dev, {"a": b"2", "k/001": None}, "two")
    commit_all(main, {"ours": b"ours"}, "ours")
    before = len(repo.operations(1000))
    one, two = main.cherry_pick("dev~1", "dev")
    assert [one.message, two.message] == ["one", "two"]
    assert two.parents == (one.id,)
    expected = {**OBJECTS, "a": b"2", "ours": b"ours"}
    del expected["k/001"]
    assert contents(repo, "main") == expected
    assert len(repo.operations(1000)) == before + 1


@pytest.mark.parametrize(("number", "path"), [(1, "k/070"), (2, "k/001")])
def test_a_merge_is_picked_as_seen_from_a_parent(
    repo: Repository, main: Branch, number: int, path: str
) -> None:
    old = repo.create_branch("old", "main")
    merge = diamond(repo, main)
    (made,) = old.cherry_pick("main", parent_number=number)
    assert contents(repo, "old") == {**OBJECTS, path: contents(repo, "main")[path]}
    assert made.metadata["cherry-pick-origin"] == merge.id


# --- either ---------------------------------------------------------------------------------------

Replay = Callable[..., list[Commit]]
both = pytest.mark.parametrize("verb", [Branch.revert, Branch.cherry_pick])


def a_root(repo: Repository, branch: str) -> Commit:
    """Make a branch whose one commit has contents and no parent."""
    tree = repo.resolve("main").meta_range_id
    root = new_commit(
        parents=(), committer="ann", message="root", creation_date=1, meta_range_id=tree
    )
    head = repo.create_branch(branch, "main").head
    move = BranchMove(branch, head.id, root.id, "commit", "ann", (root,), fence=0)
    repo._context.refs.branches.move(move)
    return root


def test_before_a_root_there_is_nothing(small_lake: Lake, repo: Repository, main: Branch) -> None:
    root = a_root(repo, "root")
    branch = repo.branch("root")
    commit_all(branch, {"new": b"new"}, "new")
    branch.revert(root.id)
    assert contents(repo, "root") == {"new": b"new"}
    branch.cherry_pick(root.id)
    assert contents(repo, "root") == {**OBJECTS, "new": b"new"}
    for verb in (branch.revert, branch.cherry_pick):
        with refused(small_lake, InvalidInputError, "has no parent 1: it has 0"):
            verb(root.id, parent_number=1)
    first = list(repo.log("main"))[-1]
    for verb in (main.revert, main.cherry_pick):
        with refused(small_lake, NoChangesError, "would change nothing"):
            verb(first.id)


def test_all_can_be_taken_away(repo: Repository, main: Branch) -> None:
    (made,) = main.revert("main")
    assert contents(repo, "main") == {}
    assert made.meta_range_id == ""
    main.cherry_pick("main~1")
    assert contents(repo, "main") == OBJECTS


@both
@pytest.mark.parametrize("number", [0, -1, 2, 3])
def test_a_parent_number_that_is_none(
    small_lake: Lake, repo: Repository, main: Branch, verb: Replay, number: int
) -> None:
    commit_all(main, {"k/001": b"x"}, "x")
    with refused(small_lake, InvalidInputError, f"has no parent {number}: it has 1"):
        verb(main, "main", parent_number=number)
    assert len(verb(repo.create_branch("dev", "main~1"), "main", parent_number=1, allow_empty=True))


@both
def test_a_merge_needs_a_parent_number(
    small_lake: Lake, repo: Repository, main: Branch, verb: Replay
) -> None:
    merge = diamond(repo, main)
    into, source = (repo.resolve(each) for each in merge.parents)
    words = f"{merge.id[:12]} is a merge of 2 parents: choose"
    with refused(small_lake, InvalidInputError, words) as raised:
        verb(main, "main")
    assert str(raised.value).endswith(
        f"(--parent-number). 1 is {into.id[:12]} {into.message!r}, which was merged into; "
        f"2 is {source.id[:12]} {source.message!r}"
    )
    with refused(small_lake, InvalidInputError, "has no parent 3: it has 2"):
        verb(main, "main", parent_number=3)


@both
def test_bad_input(small_lake: Lake, repo: Repository, main: Branch, verb: Replay) -> None:
    repo.create_tag("v1", "main")
    ghost = Branch(repo._context, "v1")
    for error, words, call in (
        (InvalidInputError, "nothing to .*: pass a commit", lambda: verb(main)),
        (InvalidInputError, "is not a merge strategy", lambda: verb(main, "main", strategy="ours")),
        (InvalidInputError, "needs a message", lambda: verb(main, "main", message=" ")),
        (InvalidInputError, "UTF-8", lambda: verb(main, "main", metadata={"a": "\0"})),
        (RefNotFoundError, "no branch 'v1'", lambda: verb(ghost, "main")),
        (RefNotFoundError, "'nope'", lambda: verb(main, "nope")),
    ):
        with refused(small_lake, error, words):
            call()


@both
def test_uncommitted_changes_are_in_the_way(
    small_lake: Lake, repo: Repository, main: Branch, verb: Replay
) -> None:
    main.put("k/001", b"staged")
    with refused(small_lake, DirtyBranchError, "commit or drop them before you"):
        verb(main, "main")


@both
def test_an_empty_commit_where_it_is_asked_for(
    small_lake: Lake, repo: Repository, main: Branch, verb: Replay
) -> None:
    empty = main.commit("empty", allow_empty=True)
    with refused(small_lake, NoChangesError, f"{empty.id[:12]} would change nothing"):
        verb(main, "main")
    (made,) = verb(main, "main", allow_empty=True)
    assert made.parents == (empty.id,)
    assert made.meta_range_id == empty.meta_range_id


# --- races ----------------------------------------------------------------------------------------


@contextmanager
def moving(repo: Repository, branch: str, times: int) -> Iterator[None]:
    """Let others commit on a branch just before each of the next moves of it."""
    left, move, own = [times], MemoryBranches.move, repo.create_branch("others", branch)

    def late(branches: MemoryBranches, wanted: BranchMove) -> None:
        if wanted.branch == branch and left[0]:
            left[0] -= 1
            made = commit_all(own, {f"others/{left[0]}": b"theirs"}, "theirs")
            move(branches, BranchMove(branch, wanted.expected, made.id, "commit", "they", fence=0))
        move(branches, wanted)

    with mock.patch.object(MemoryBranches, "move", late):
        yield


@pytest.mark.parametrize("times", [1, 3])
def test_who_loses_a_race_replays_over_the_new_head(
    repo: Repository, main: Branch, times: int
) -> None:
    first = commit_all(main, {"k/001": b"one", "k/070": None}, "one")
    second = commit_all(main, {"k/002": b"two"}, "two")
    commit_all(main, {"k/003": b"three"}, "three")
    with moving(repo, "main", times):
        one, two = main.revert(second.id, first.id)
    theirs = {f"others/{number}": b"theirs" for number in range(times)}
    assert contents(repo, "main") == {**OBJECTS, "k/003": b"three", **theirs}
    assert repo.resolve(one.parents[0]).message == "theirs"
    assert main.head == two
    verbs = [each.verb for each in repo.operations(times + 1) if each.ref == "main"]
    assert verbs[0] == "revert"


def test_who_always_loses_gives_up(repo: Repository, main: Branch) -> None:
    commit_all(main, {"k/001": b"one"}, "one")
    with moving(repo, "main", 2 * MAX_ATTEMPTS), pytest.raises(RaceLostError):
        main.revert("main")
    assert main.head.message == "theirs"


def test_a_branch_that_gets_dirty_meanwhile(repo: Repository, main: Branch) -> None:
    """What is staged while a revert is under way stays staged."""
    commit_all(main, {"k/001": b"one"}, "one")
    move = MemoryBranches.move

    def late(branches: MemoryBranches, wanted: BranchMove) -> None:
        main.put("staged", b"staged")
        move(branches, wanted)

    with mock.patch.object(MemoryBranches, "move", late):
        main.revert("main")
    assert contents(repo, "main@") == OBJECTS
    assert contents(repo, "main") == {**OBJECTS, "staged": b"staged"}
    state: BranchState = main.state
    assert len(state.layers) == 1


# --- the oracle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(12, always=3))
def test_random_histories_as_dicts_would(small_lake: Lake, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    name = f"random-{seed}"
    repo = small_lake.create_repository(
        name, str(folder / name), range_records=rng.choice([1, 2, 8])
    )
    main, names, bodies = repo.branch("main"), [f"p{number:02}" for number in range(24)], b"abc"
    trees: dict[str, dict[str, bytes]] = {main.head.id: {}}
    parents: dict[str, str | None] = {main.head.id: None}
    done = 0
    for step in range(30):
        head = main.head.id
        if step % 3 == 0:
            paths = rng.sample(names, rng.randint(1, 8))
            changes = {
                each: rng.choice([None, *(bytes([body]) for body in bodies)]) for each in paths
            }
            for path, body in changes.items():
                main.delete(path) if body is None else main.put(path, body)
            made = main.commit(f"step {step}", allow_empty=True)
            after = {**trees[head], **changes}
            trees[made.id] = {path: body for path, body in after.items() if body is not None}
            parents[made.id] = head
            continue
        commit, verb = rng.choice(list(trees)), rng.choice(["revert", "cherry_pick"])
        strategy = rng.choice([None, "source-wins", "dest-wins"])
        before = trees[parents[commit]] if parents[commit] else {}
        base, source = (trees[commit], before) if verb == "revert" else (before, trees[commit])
        winner = source if strategy == "source-wins" else trees[head]
        expected, conflicts = merged(base, source, trees[head], winner)
        replay = partial(getattr(main, verb), commit, strategy=strategy)
        if conflicts and strategy is None:
            with pytest.raises(MergeConflictError) as raised:
                replay()
            assert [each.path for each in raised.value.conflicts] == conflicts
        elif expected == trees[head]:
            with pytest.raises(NoChangesError):
                replay()
        else:
            (made,) = replay()
            done += 1
            trees[made.id], parents[made.id] = expected, head
        assert contents(repo, "main") == trees[main.head.id]
    assert done
