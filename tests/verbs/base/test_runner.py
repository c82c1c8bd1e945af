"""The order of the steps around a verb."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparklake import Branch, Once, Repository, run_verb
from sparklake.errors import (
    CollectionStartedError,
    InvalidInputError,
    NoChangesError,
    RaceLostError,
)
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.once import COUNT
from sparklake.verbs.base.runner import restarts, runs_verbs, verb, with_branch_queue


@runs_verbs
@dataclass
class Counter:
    """A noun with one verb, which logs its steps and whose attempts raise the given errors."""

    _context: Context
    errors: list[Exception] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    name: str = "main"

    @verb("count", COUNT, head=lambda counter, _: -len(counter.steps))
    def count(self, number: int, if_needed: bool = False, once: str | Once | None = None) -> int:
        self.steps.append("method" if self._context.once is None else "keyed method")
        return counted(self._context, self, number)

    def plain(self, path: str) -> str:
        return path


@restarts(versions=True)
def counted(context: Context, counter: Counter, number: int) -> int:
    counter.steps.append("verb")

    def attempt() -> int:
        held = context.refs.branches.is_turn_held("main")
        counter.steps.append("queued attempt" if held else "attempt")
        if counter.errors:
            raise counter.errors.pop(0)
        return number

    return with_branch_queue(context, "main", attempt)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def counter(repo: Repository) -> Counter:
    return Counter(repo._context)


def test_arguments_are_checked_before_the_key(counter: Counter) -> None:
    assert counter.count(1, once="a key") == 1
    counter.steps.clear()
    with pytest.raises(InvalidInputError, match="'number' of count must be an integer"):
        counter.count("2", once="a key")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="'once' of count"):
        counter.count(1, once=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="'path' of plain must be a string"):
        counter.plain(5)  # type: ignore[arg-type]
    assert counter.steps == []


def test_a_recorded_key_is_looked_up_before_anything_runs(counter: Counter) -> None:
    first = run_verb(counter.count, 1, once="a key")
    assert (first.value, first.changed, first.repeated) == (1, False, False)
    assert counter.steps == ["keyed method", "verb", "attempt"]
    counter.errors.append(NoChangesError("never raised"))
    again = run_verb(counter.count, 1, once="a key")
    assert (again.value, again.changed, again.repeated) == (1, False, True)
    assert len(counter.steps) == 3


def test_a_no_op_is_recorded_with_its_key(counter: Counter) -> None:
    counter.errors.append(NoChangesError("nothing to count"))
    first = run_verb(counter.count, 1, if_needed=True, once="a key")
    assert (first.value, first.changed, first.repeated) == (-3, False, False)
    assert run_verb(counter.count, 1, True, "a key").repeated
    counter.errors.append(NoChangesError("nothing to count"))
    assert run_verb(counter.count, 1, if_needed=True).changed is False
    counter.errors.append(NoChangesError("nothing to count"))
    with pytest.raises(NoChangesError):
        counter.count(1)


@pytest.mark.parametrize("key", [None, "a key"])
def test_a_lost_race_repeats_the_attempt_in_the_queue(counter: Counter, key: str | None) -> None:
    counter.errors += [RaceLostError("lost"), RaceLostError("lost again")]
    assert counter.count(1, once=key) == 1
    assert counter.steps[1:] == ["verb", "attempt", "queued attempt", "queued attempt"]


@pytest.mark.parametrize("key", [None, "a key"])
def test_a_collection_restarts_the_verb_from_outside_the_queue(
    counter: Counter, key: str | None
) -> None:
    counter.errors += [RaceLostError("lost"), CollectionStartedError("started")]
    assert counter.count(1, once=key) == 1
    # The method and its key are entered once.
    assert counter.steps[1:] == ["verb", "attempt", "queued attempt", "verb", "attempt"]


def test_other_errors_are_final(counter: Counter) -> None:
    counter.errors.append(InvalidInputError("final"))
    with pytest.raises(InvalidInputError, match="final"):
        counter.count(1, if_needed=True)
    assert counter.steps == ["method", "verb", "attempt"]


def test_only_verbs_have_results(repo: Repository) -> None:
    main: Branch = repo.branch("main")
    assert run_verb(main.commit, "nothing", if_needed=True).value == main.head
    with pytest.raises(InvalidInputError, match="is not a method of a repository or a branch"):
        run_verb(len, "x")
