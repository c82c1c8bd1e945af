"""Best common ancestors, against brute force and a real git."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from sparklake.graveler.graph.merge_base import merge_bases
from tests.support.cases import for_each
from tests.support.git import Git, needs_git

History = dict[str, tuple[str, ...]]
"""The parents of each commit; parents come first."""


def generations(history: History) -> dict[str, int]:
    """Return generations. Some are higher than needed, as those of lakeFS's squash merges."""
    result: dict[str, int] = {}
    for commit, parents in history.items():
        more = (0, 0, 0, 30)[sum(commit.encode()) % 4]
        result[commit] = 1 + more + max((result[parent] for parent in parents), default=0)
    return result


def bases(history: History, left: str, right: str) -> list[str]:
    return merge_bases(left, right, history.__getitem__, generations(history).__getitem__)


def ancestors(history: History, commit: str) -> set[str]:
    """Return a commit and all its ancestors."""
    return {commit}.union(*(ancestors(history, parent) for parent in history[commit]))


def brute_force(history: History, left: str, right: str) -> list[str]:
    common = ancestors(history, left) & ancestors(history, right)
    best = {
        each
        for each in common
        if not any(each != other and each in ancestors(history, other) for other in common)
    }
    generation = generations(history)
    return sorted(best, key=lambda each: (-generation[each], each))


LINE: History = {"a": (), "b": ("a",), "c": ("b",)}
FORK: History = {**LINE, "l": ("c",), "r": ("c",)}
CRISS_CROSS: History = {"a": (), "l": ("a",), "r": ("a",), "x": ("l", "r"), "y": ("r", "l")}
LONG_WAY: History = {
    "a": (),
    "b": ("a",),
    "l1": ("b",),
    "l2": ("l1",),
    "l3": ("l2", "a"),
    "r": ("b", "a"),
}
APART: History = {"a": (), "b": (), "c": ("b",)}


@for_each(
    ("history", "left", "right", "expected"),
    [
        (LINE, "a", "a", ["a"]),
        (LINE, "a", "c", ["a"]),
        (LINE, "c", "b", ["b"]),
        (FORK, "l", "r", ["c"]),
        (FORK, "l", "b", ["b"]),
        (CRISS_CROSS, "x", "y", ["l", "r"]),
        (CRISS_CROSS, "x", "l", ["l"]),
        (LONG_WAY, "l3", "r", ["b"]),
        (APART, "a", "c", []),
    ],
)
def test_merge_bases_of_small_histories_are_found(
    history: History, left: str, right: str, expected: list[str]
) -> None:
    assert bases(history, left, right) == expected == brute_force(history, left, right)
    assert bases(history, right, left) == expected


def random_history(chance: random.Random) -> History:
    history: History = {}
    for number in range(chance.randint(1, 10)):
        parents = chance.sample([*history], min(len(history), chance.choice((0, 1, 1, 1, 2, 2, 3))))
        history[f"{chance.randint(0, 99):02}-{number}"] = tuple(parents)
    return history


def test_random_histories_agree_with_brute_force() -> None:
    chance = random.Random(5)
    for _ in range(400):
        history = random_history(chance)
        for left, right in product(history, repeat=2):
            assert bases(history, left, right) == brute_force(history, left, right), history


def tangled_history(chance: random.Random, name: str) -> History:
    """Return commits that often merge the latest ones."""
    history: History = {}
    for number in range(chance.randint(2, 24)):
        latest = [*history][-chance.choice((3, 4, 5, 8)) :]
        parent_count = 0 if chance.random() < 0.02 else chance.choice((1, 1, 2, 2, 2, 3))
        parents = chance.sample(latest, min(len(latest), parent_count))
        history[f"{name}/{chance.randint(0, 99):02}-{number}"] = tuple(parents)
    return history


@pytest.mark.system
@pytest.mark.timeout(1200)
def test_very_many_random_histories_agree_with_brute_force() -> None:
    chance = random.Random(55)
    for _ in range(200_000):
        history = random_history(chance)
        left, right = chance.choices([*history], k=2)
        assert bases(history, left, right) == brute_force(history, left, right), history


@needs_git
@pytest.mark.parametrize(
    "count", [200, pytest.param(2_000, marks=[pytest.mark.system, pytest.mark.timeout(1200)])]
)
def test_random_histories_agree_with_git(count: int, tmp_path: Path) -> None:
    chance, git = random.Random(count), Git(tmp_path / "git")
    histories = [tangled_history(chance, str(number)) for number in range(count)]
    together = {name: parents for history in histories for name, parents in history.items()}
    git.import_fast(together)
    ids = dict(zip(together, git.ids([*together]), strict=True))
    several = 0
    for history in histories:
        # Late commits have the most ancestors to choose from.
        left, right = chance.sample([*history][-4:], k=2)
        best = bases(history, left, right)
        assert {ids[each] for each in best} == {*git.merge_bases(left, right)}, history
        assert best == brute_force(history, left, right)
        several += len(best) > 1
    assert several > count / 20


def test_only_commits_newer_than_the_base_are_visited() -> None:
    line: History = {"0000": ()}
    for number in range(1, 2000):
        line[f"{number:04}"] = (f"{number - 1:04}",)
    history: History = {**line, "left": ("1999",), "right": ("1990",)}
    generation = generations(history)
    visits: list[str] = []

    def parents(commit: str) -> tuple[str, ...]:
        visits.append(commit)
        return history[commit]

    assert merge_bases("left", "right", parents, generation.__getitem__) == ["1990"]
    assert len(visits) == len({*visits}) <= 13
