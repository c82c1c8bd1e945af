"""Hard resets, and the log of moves and its undoing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pytest

from sparklake import Branch, Commit, Lake, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidRefError,
    NothingToDoError,
    RaceLostError,
    RefNotFoundError,
    UnexpectedHeadError,
)
from sparklake.graveler.ports import BranchMove
from sparklake.testing.lakes import TESTER, commit_all, contents
from sparklake.testing.memory import MemoryBranches
from tests.support.lakes import refused, stage_sizes


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    name = f"moves-{uuid4().hex[:8]}"
    return any_lake.create_repository(name, str(folder / name), range_records=2)


@pytest.fixture
def commits(repo: Repository) -> list[Commit]:
    """Make three commits on main, of which the last is its head."""
    main = repo.branch("main")
    return [commit_all(main, {"k": b"%d" % number}, f"{number}") for number in range(3)]


@pytest.fixture
def main(repo: Repository, commits: list[Commit]) -> Branch:
    return repo.branch("main")


def moves(
    repo: Repository, ref: str | None = None
) -> list[tuple[str, str, str | None, str | None]]:
    found = repo.operations(1000, ref)
    return [(each.verb, each.ref, each.from_commit, each.to_commit) for each in found]


@contextmanager
def others_first(act: Callable[[], object]) -> Iterator[None]:
    """Let others act once, just before a branch is moved."""
    move, left = MemoryBranches.move, [act]

    def late(branches: MemoryBranches, wanted: BranchMove) -> None:
        if left:
            left.pop()()
        move(branches, wanted)

    with mock.patch.object(MemoryBranches, "move", late):
        yield


# --- hard reset -----------------------------------------------------------------------------------


def test_a_branch_goes_anywhere(repo: Repository, main: Branch, commits: list[Commit]) -> None:
    first, second, third = commits
    repo.create_tag("v1", "main~1")
    before = len(moves(repo))
    for ref, target in (("main~2", first), ("v1", second), (third.id[:12], third)):
        start = main.head.id
        assert main.hard_reset(ref) == target == main.head
        assert contents(repo, "main")["k"] == target.message.encode()
        assert moves(repo)[0] == ("hard-reset", "main", start, target.id)
    assert repo.operations(1)[0].who == TESTER
    assert len(moves(repo)) == before + 3
    # Where it is already there is nothing to note.
    assert main.hard_reset("main") == third
    assert len(moves(repo)) == before + 3


def test_a_hard_reset_from_where_it_is_expected(
    any_lake: Lake, main: Branch, commits: list[Commit]
) -> None:
    first, second, third = commits
    words = f"'main' is at {third.id[:12]}, not at {second.id[:12]}"
    with refused(any_lake, UnexpectedHeadError, words):
        main.hard_reset("main~2", expected=second.id)
    assert main.hard_reset("main~2", expected=third.id[:16]) == first
    with refused(any_lake, UnexpectedHeadError, "check the new commits"):
        main.hard_reset("main", expected=third.id)


def test_staged_changes_are_in_the_way_unless_they_are_to_go(
    any_lake: Lake, repo: Repository, main: Branch, commits: list[Commit]
) -> None:
    main.put("new", b"new")
    stage_sizes(main, {"run": 1})
    main.put("k", b"staged")
    with refused(any_lake, DirtyBranchError, "commit or drop them before you move it"):
        main.hard_reset("main~1")
    with refused(any_lake, RefNotFoundError, "nope"):
        main.hard_reset("nope", force=True)
    with refused(any_lake, UnexpectedHeadError, "is at"):
        main.hard_reset("main~1", expected="main~1", force=True)
    main.hard_reset("main~1", force=True)
    assert not main.is_dirty
    assert contents(repo, "main") == {"k": b"1"}
    main.put("new", b"new")
    log = moves(repo)
    main.hard_reset("main", force=True)
    assert not main.is_dirty
    assert moves(repo) == log


def test_a_hard_reset_of_what_is_not_there(any_lake: Lake, repo: Repository, main: Branch) -> None:
    repo.create_tag("v1", "main")
    for name in ("nope", "v1"):
        with refused(any_lake, RefNotFoundError, f"no branch '{name}'"):
            Branch(repo._context, name).hard_reset("main")
    for ref, error in (("main~9", RefNotFoundError), ("main$", InvalidRefError)):
        with refused(any_lake, error, "main"):
            main.hard_reset(ref)
        with refused(any_lake, error, "main"):
            main.hard_reset("main", expected=ref)


@pytest.mark.parametrize("any_lake", ["memory"], indirect=True)
def test_the_ref_is_looked_up_as_of_the_move(
    repo: Repository, main: Branch, commits: list[Commit]
) -> None:
    """Two who each go back by one, go back by two."""
    with others_first(lambda: main.hard_reset("main~1")):
        assert main.hard_reset("main~1") == commits[0]
    assert main.head == commits[0]


@pytest.mark.parametrize("any_lake", ["memory"], indirect=True)
def test_who_expects_a_head_does_not_try_again_from_another(
    repo: Repository, main: Branch, commits: list[Commit]
) -> None:
    made = []
    with (
        others_first(lambda: made.append(commit_all(main, {"k": b"theirs"}, "theirs"))),
        pytest.raises(UnexpectedHeadError),
    ):
        main.hard_reset("main~1", expected=commits[-1].id)
    assert [main.head] == made


# --- the log and its undoing ----------------------------------------------------------------------


def test_the_log_is_of_all_or_of_one(repo: Repository, main: Branch, commits: list[Commit]) -> None:
    repo.create_branch("dev", "main~1")
    repo.create_tag("v1", "main")
    repo.delete_branch("dev")
    everything = moves(repo)
    assert moves(repo, "dev") == [
        ("delete-branch", "dev", commits[1].id, None),
        ("create-branch", "dev", None, commits[1].id),
    ]
    assert moves(repo, "main") == [each for each in everything if each[1] == "main"]
    assert moves(repo, "nothing") == []
    assert len(repo.operations(2)) == 2


def test_undo_moves_back_and_then_forth(
    repo: Repository, main: Branch, commits: list[Commit]
) -> None:
    _, second, third = commits
    assert main.undo() == second == main.head
    assert contents(repo, "main") == {"k": b"1"}
    assert moves(repo)[0] == ("undo", "main", third.id, second.id)
    assert repo.resolve(third.id) == third
    assert main.undo() == third == main.head
    assert moves(repo)[0] == ("undo", "main", second.id, third.id)


def test_every_verb_that_moves_a_branch_can_be_undone(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"new": b"new"}, "new")
    for verb in (
        lambda: repo.merge("dev", "main"),
        lambda: main.revert("main", "main~1"),
        lambda: main.cherry_pick("dev"),
        lambda: main.hard_reset("main~2"),
        lambda: commit_all(main, {"k": b"other"}, "other"),
    ):
        before = main.head
        verb()
        assert main.head != before
        assert main.undo() == before == main.head


def test_what_cannot_be_undone(any_lake: Lake, repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    with refused(any_lake, NothingToDoError, "'dev' has not moved since it was created"):
        dev.undo()
    commit_all(dev, {"k": b"x"}, "x")
    repo.delete_branch("dev")
    with refused(any_lake, RefNotFoundError, "no branch 'dev'"):
        dev.undo()
    repo.create_branch("dev", "main")
    with refused(any_lake, NothingToDoError, "'dev' has not moved since it was created"):
        dev.undo()
    main.put("k", b"staged")
    with refused(any_lake, DirtyBranchError, "before you undo its latest move"):
        main.undo()


@pytest.mark.parametrize("any_lake", ["memory"], indirect=True)
def test_undo_does_not_undo_what_it_has_not_seen(repo: Repository, main: Branch) -> None:
    with (
        others_first(lambda: commit_all(main, {"k": b"theirs"}, "theirs")),
        pytest.raises(RaceLostError),
    ):
        main.undo()
    assert main.head.message == "theirs"
    # And not either when the log is a move ahead of the head that was seen.
    find = MemoryBranches.find

    def stale(branches: MemoryBranches, name: str) -> object:
        seen = find(branches, name)
        with mock.patch.object(MemoryBranches, "find", find):
            commit_all(main, {"k": b"again"}, "again")
        return seen

    with mock.patch.object(MemoryBranches, "find", stale), pytest.raises(UnexpectedHeadError):
        main.undo()
    assert main.head.message == "again"


@pytest.mark.parametrize("any_lake", ["memory"], indirect=True)
def test_undo_notices_that_a_branch_has_moved_there_and_back(
    repo: Repository, main: Branch
) -> None:
    seen = main.head

    def there_and_back() -> None:
        commit_all(main, {"k": b"theirs"}, "theirs")
        main.hard_reset(seen.id)

    with others_first(there_and_back), pytest.raises(RaceLostError, match="moved back"):
        main.undo()
    assert main.head == seen
    # The latest move is the hard reset.
    assert main.undo().message == "theirs"
