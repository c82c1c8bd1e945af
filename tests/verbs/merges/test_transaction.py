"""Transactions: all of the work or none, and none of it lost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from sparklake import Branch, Lake, MergeConflictError, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
    TransactionError,
)
from sparklake.testing.lakes import commit_all, contents
from tests.support.lakes import refused

pytestmark = pytest.mark.both_stores


class BodyError(Exception):
    """An error of a user's own."""


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    name = f"tx-{uuid4().hex[:8]}"
    made = any_lake.create_repository(name, str(folder / name), range_records=2)
    commit_all(made.branch("main"), {"k": b"1", "other": b"1"}, "base")
    return made


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def attempt(branch: Branch, body: Callable[[Branch], object], **options: Any) -> None:
    """Run one transaction."""
    with branch.transaction("x", **options) as tx:
        body(tx)


def fail(error: BaseException) -> None:
    raise error


def hidden(repo: Repository) -> list[str]:
    return [each.name for each in repo.branch_states(hidden=True) if each.hidden]


# --- what is done ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("healthy_at_end")
def test_the_work_is_seen_at_its_end_and_not_before(repo: Repository, main: Branch) -> None:
    before = main.head
    with main.transaction("all of it", committer="joe", metadata={"ticket": "7"}) as tx:
        assert tx.name.startswith("_tx-main-")
        assert [each.name for each in repo.branches()] == ["main"]
        assert tx.state.expires is not None
        tx.put("k", b"2")
        tx.delete("other")
        assert contents(repo, tx.name) == {"k": b"2"}
        assert contents(repo, "main") == {"k": b"1", "other": b"1"}
        assert repo.read_bytes(tx.name, "k") == b"2"
    made = main.head
    assert contents(repo, "main@") == {"k": b"2"}
    assert (made.message, made.committer) == ("all of it", "joe")
    assert made.metadata["ticket"] == "7"
    assert made.parents[0] == before.id
    assert repo.resolve(made.parents[1]).parents == (before.id,)
    assert [each.id for each in repo.log("main", first_parent=True)][:2] == [made.id, before.id]
    assert hidden(repo) == []


def test_metadata_is_that_of_the_start(main: Branch) -> None:
    metadata = {"ticket": "7"}
    with main.transaction("x", metadata=metadata) as tx:
        metadata["ticket"] = "8"
        tx.put("k", b"2")
    assert main.head.metadata["ticket"] == "7"


@pytest.mark.usefixtures("healthy_at_end")
def test_commits_of_its_own_come_in_by_one_merge(repo: Repository, main: Branch) -> None:
    before = main.head
    with main.transaction("both") as tx:
        one = commit_all(tx, {"a": b"1"}, "one")
        commit_all(tx, {"b": b"1"}, "two")
    assert main.head.parents[0] == before.id
    assert one.id in {each.id for each in repo.log("main")}
    assert set(contents(repo, "main")) == {"a", "b", "k", "other"}


def test_nothing_done_leaves_nothing(repo: Repository, main: Branch) -> None:
    before = main.head
    with main.transaction("nothing"):
        pass
    with main.transaction("the same again") as tx:
        tx.put("k", b"1")
    with main.transaction("done and undone") as tx:
        commit_all(tx, {"k": b"2"}, "there")
        commit_all(tx, {"k": b"1"}, "and back")
    assert (main.head, hidden(repo)) == (before, [])
    with pytest.raises(BodyError), main.transaction("nothing, and an error"):
        raise BodyError
    assert hidden(repo) == []


def test_a_protected_branch_takes_transactions(repo: Repository, main: Branch) -> None:
    repo.settings.protect("*")
    with main.transaction("merged") as tx:
        tx.put("k", b"2")
    assert contents(repo, "main")["k"] == b"2"
    assert hidden(repo) == []


def test_what_others_commit_meanwhile_stays(repo: Repository, main: Branch) -> None:
    with main.transaction("mine") as tx:
        tx.put("k", b"mine")
        theirs = commit_all(main, {"new": b"theirs"}, "theirs")
        assert "new" not in contents(repo, tx.name)
    assert contents(repo, "main") == {"k": b"mine", "other": b"1", "new": b"theirs"}
    assert main.head.parents[0] == theirs.id


@pytest.mark.usefixtures("healthy_at_end")
def test_transactions_and_commits_race_and_nothing_is_lost(repo: Repository) -> None:
    workers, turns = 4, 5
    barrier = Barrier(workers)

    def work(number: int) -> None:
        main = repo.branch("main")
        barrier.wait()
        for turn in range(turns):
            path = f"{number}/{turn}"
            if number:
                with main.transaction(path) as tx:
                    tx.put(f"{path}/a", path.encode())
                    tx.put(f"{path}/b", path.encode())
                continue
            side = repo.create_branch(f"side-{turn}", "main")
            side.put(f"{path}/a", path.encode())
            side.put(f"{path}/b", path.encode())
            side.commit(path)
            repo.merge(side.name, "main")

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    expected = {
        f"{number}/{turn}/{name}": f"{number}/{turn}".encode()
        for number in range(workers)
        for turn in range(turns)
        for name in "ab"
    }
    assert contents(repo, "main@") == {"k": b"1", "other": b"1", **expected}
    assert hidden(repo) == []
    # At every moment of its life main has had both objects of a piece of work, or none.
    for commit in repo.log("main", first_parent=True):
        works = Counter(each.path.rpartition("/")[0] for each in repo.objects(commit.id))
        assert set(works.values()) <= {2}


# --- what is not ----------------------------------------------------------------------------------


def test_an_error_of_the_body_goes_through_and_the_work_is_kept(
    repo: Repository, main: Branch, caplog: pytest.LogCaptureFixture
) -> None:
    before, names = main.head, []

    def body(tx: Branch) -> None:
        names.append(tx.name)
        tx.put("k", b"2")
        raise BodyError("mine")

    with (
        caplog.at_level(logging.WARNING, "sparklake.transactions"),
        pytest.raises(BodyError, match="mine") as raised,
    ):
        attempt(main, body)
    assert main.head == before
    assert contents(repo, "main")["k"] == b"1"
    assert hidden(repo) == names
    (note,) = raised.value.__notes__  # type: ignore[attr-defined]
    assert f"hidden branch {names[0]!r}" in note
    assert f"sparklake diff lakefs://{repo.name}/{names[0]}" in note
    assert names[0] in caplog.text
    # And it can go on from there.
    kept = repo.branch(names[0])
    kept.commit("saved")
    repo.merge(kept.name, "main")
    assert contents(repo, "main")["k"] == b"2"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MergeConflictError("mine", [], 0)])
def test_any_error_of_the_body_goes_through(
    repo: Repository, main: Branch, error: BaseException
) -> None:
    with pytest.raises((KeyboardInterrupt, MergeConflictError)):
        attempt(main, lambda tx: (tx.put("k", b"2"), fail(error)))
    assert [contents(repo, name)["k"] for name in hidden(repo)] == [b"2"]


def test_a_conflict_at_the_end_keeps_the_work_and_names_it(repo: Repository, main: Branch) -> None:
    def body(tx: Branch) -> None:
        tx.put("k", b"mine")
        commit_all(main, {"k": b"theirs"}, "theirs")

    with pytest.raises(TransactionError) as raised:
        attempt(main, body)
    assert main.head.message == "theirs"
    error, cause = raised.value, raised.value.__cause__
    assert isinstance(cause, MergeConflictError)
    assert cause.count == 1
    assert hidden(repo) == [error.branch]
    assert error.branch in str(error)
    assert "the merge was not applied: 1 conflicting object ('k')" in str(error)
    assert "merge it into 'main'" in str(error)
    made = repo.merge(error.branch, "main", strategy="source-wins")
    assert contents(repo, made.id)["k"] == b"mine"


def test_a_strategy_settles_conflicts(repo: Repository, main: Branch) -> None:
    with main.transaction("mine", strategy="dest-wins") as tx:
        tx.put("k", b"mine")
        commit_all(main, {"k": b"theirs"}, "theirs")
    assert contents(repo, "main")["k"] == b"theirs"
    assert hidden(repo) == []


def test_staged_changes_are_in_the_way_at_both_ends(
    any_lake: Lake, repo: Repository, main: Branch
) -> None:
    main.put("staged", b"1")
    with (
        refused(any_lake, DirtyBranchError, "before you start a transaction on it"),
        main.transaction("x"),
    ):
        pytest.fail("it has begun")
    main.reset()
    with pytest.raises(TransactionError) as raised:
        attempt(main, lambda tx: (tx.put("k", b"2"), main.put("k", b"3")))
    assert isinstance(raised.value.__cause__, DirtyBranchError)
    assert hidden(repo) == [raised.value.branch]
    assert contents(repo, "main") == {"k": b"3", "other": b"1"}


def test_what_goes_away_meanwhile(any_lake: Lake, repo: Repository) -> None:
    dev = repo.create_branch("dev", "main")
    with pytest.raises(TransactionError) as raised:
        attempt(dev, lambda tx: (tx.put("k", b"2"), repo.delete_branch("dev")))
    assert isinstance(raised.value.__cause__, RefNotFoundError)
    assert contents(repo, raised.value.branch)["k"] == b"2"
    main = repo.branch("main")
    with pytest.raises(TransactionError) as raised:
        attempt(main, lambda tx: (tx.put("k", b"2"), repo.settings.set_read_only()))
    assert isinstance(raised.value.__cause__, ReadOnlyError)
    repo.settings.set_read_only(False)
    with pytest.raises(RefNotFoundError, match="_tx-main-"):
        attempt(main, lambda tx: repo.delete_branch(tx.name))
    with pytest.raises(BodyError) as body:
        attempt(main, lambda tx: (repo.delete_branch(tx.name), fail(BodyError())))
    assert not hasattr(body.value, "__notes__")


def test_what_cannot_begin(any_lake: Lake, repo: Repository, main: Branch) -> None:
    for options, words in (
        ({"message": " "}, "a message"),
        ({"message": "x", "strategy": "ours"}, "strategy"),
        ({"message": "x", "expires": timedelta()}, "cannot expire"),
    ):
        with refused(any_lake, InvalidInputError, words), main.transaction(**options):  # type: ignore[arg-type]
            pytest.fail("it has begun")
    repo.settings.set_read_only()
    with refused(any_lake, ReadOnlyError, "read-only"), main.transaction("x"):
        pytest.fail("it has begun")
    gone = Branch(repo._context, "nothing")
    with refused(any_lake, RefNotFoundError, "no branch 'nothing'"), gone.transaction("x"):
        pytest.fail("it has begun")


def test_a_long_name_of_a_branch_is_no_obstacle(repo: Repository) -> None:
    long = repo.create_branch("b" * 255, "main")
    with long.transaction("x") as tx:
        tx.put("k", b"2")
    assert contents(repo, long.name)["k"] == b"2"


@pytest.mark.usefixtures("healthy_at_end")
def test_kept_work_is_pruned_when_it_has_expired(repo: Repository, main: Branch) -> None:
    with pytest.raises(BodyError):
        attempt(main, lambda tx: (tx.put("k", b"2"), fail(BodyError())), expires=timedelta(days=1))
    assert repo.prune_branches() == []
    (name,) = hidden(repo)
    repo._context.refs.branches.set_lifetime(name, timedelta(seconds=-1))
    assert [each.name for each in repo.prune_branches()] == [name]
    with pytest.raises(RaceLostError):
        repo._context.refs.branches.delete("main", "ann", if_expired=True)
