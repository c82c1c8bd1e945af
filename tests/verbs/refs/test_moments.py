"""Which commit was the head of a branch at a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.documents import operation_document
from sparklake.errors import InvalidInputError, RefNotFoundError
from sparklake.testing.lakes import commit_all, memory_lake
from sparklake.verbs.refs import moves as moments

SECOND = timedelta(seconds=1)


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    return any_lake.create_repository(f"r-{uuid4().hex}", str(folder / "lake"))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Is the dates that the moves of a branch have, the first one first, without fractions."""
    found: list[int] = []
    moves = moments._moves

    def dated(*arguments: object) -> object:
        each = list(moves(*arguments))
        dates = found[::-1]
        return iter(
            [
                replace(move, date=date, microseconds=0)
                for move, date in zip(each, dates, strict=True)
            ]
        )

    monkeypatch.setattr(moments, "_moves", dated)
    monkeypatch.setattr(moments, "_FIRST_PAGE", 2)
    return found


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def test_the_log_of_moves_tells_where_a_branch_was(repo: Repository, times: list[int]) -> None:
    main = repo.branch("main")
    first = repo.resolve("main")
    heads = [first, *(commit_all(main, {"k": b"%d" % at}, f"{at}") for at in range(3))]
    # Back, which no history of commits shows; two moves in one second.
    main.hard_reset(heads[1].id)
    times += [100, 200, 300, 300, 500]
    for seconds, expected in (
        (100, heads[0]),
        (199.9, heads[0]),
        (200, heads[1]),
        (300, heads[3]),
        (499, heads[3]),
        (10_000, heads[1]),
    ):
        assert repo.at_time("main", moment(seconds)) == expected
    with pytest.raises(
        RefNotFoundError, match=r"the branch 'main' did not exist at .*it was created at 1970"
    ):
        repo.at_time("main", moment(99))


def test_moves_within_a_second_are_told_apart(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = repo.branch("main")
    made = [commit_all(main, {"k": b"%d" % at}, f"{at}") for at in range(3)]
    moves = repo.operations(ref="main")[::-1]
    assert all(0 <= each.microseconds < 1_000_000 for each in moves)
    dated = [replace(move, date=100, microseconds=at * 250_000) for at, move in enumerate(moves)]
    monkeypatch.setattr(moments, "_moves", lambda *_: iter(dated[::-1]))
    assert repo.at_time("main", moment(100.25)) == made[0]
    assert repo.at_time("main", moment(100.499)) == made[0]
    assert repo.at_time("main", moment(100.5)) == made[1]
    # Dates are shown in whole seconds: such a moment is all of its second.
    assert repo.at_time("main", moment(100)) == made[2]
    with pytest.raises(RefNotFoundError):
        repo.at_time("main", moment(99.999999))


def test_a_move_has_a_date_to_the_microsecond(repo: Repository) -> None:
    seen = []
    for at in range(3):
        made = commit_all(repo.branch("main"), {"k": b"%d" % at}, f"{at}")
        move = repo.operations(1, ref="main")[0]
        seen.append((moment(move.date) + timedelta(microseconds=move.microseconds), made))
    assert len({when for when, _ in seen}) == 3
    for when, made in seen:
        if when.microsecond:
            assert repo.at_time("main", when) == made
    assert "microseconds" not in operation_document(repo.operations(1)[0])


def test_a_branch_that_was_gone_for_a_while(repo: Repository, times: list[int]) -> None:
    commit_all(repo.branch("main"), {"k": b"1"}, "one")
    repo.create_branch("dev", "main~1")
    repo.delete_branch("dev")
    repo.create_branch("dev", "main")
    times += [100, 200, 300]
    assert repo.at_time("dev", moment(150)) == repo.resolve("main~1")
    assert repo.at_time("dev", moment(300)) == repo.resolve("main")
    for seconds in (50, 250):
        with pytest.raises(RefNotFoundError, match="branch 'dev' did not exist at"):
            repo.at_time("dev", moment(seconds))


def test_before_a_restored_repository_its_commits_tell(repo: Repository, folder: Path) -> None:
    made = [commit_all(repo.branch("main"), {"k": b"%d" % at}, f"{at}") for at in range(2)]
    repo.dump_refs()
    again = memory_lake().restore_repository("again", str(folder / "lake"))
    at = moment(repo.resolve("main").creation_date)
    assert again.at_time("main", at) == made[1]
    with pytest.raises(RefNotFoundError):
        again.at_time("main", moment(repo.resolve("main~2").creation_date) - SECOND)


def test_a_moment_needs_a_time_zone_and_a_branch(repo: Repository) -> None:
    with pytest.raises(InvalidInputError, match="time zone"):
        repo.at_time("main", datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(RefNotFoundError, match="no branch 'nobody'"):
        repo.at_time("nobody", moment(0))
