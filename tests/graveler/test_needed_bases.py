"""Bases that later merges may need, compared with the bases of random merges."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import merge_bases, needed_bases
from sparklake.graveler.graph.virtual_base import VirtualBases
from sparklake.graveler.ids import CommitId, MetaRangeId
from tests.support.cases import for_each

History = dict[str, tuple[str, ...]]
"""The parents of each commit; parents come first."""

FORK: History = {"a": (), "b": ("a",), "c": ("b",), "l": ("c",), "l2": ("l",), "r": ("c",)}
CRISS_CROSS: History = {
    "a": (),
    "l": ("a",),
    "r": ("a",),
    "x": ("l", "r"),
    "y": ("r", "l"),
    "x2": ("x",),
    "y2": ("y",),
}
MERGED: History = {"a": (), "f": ("a",), "f2": ("f",), "m": ("a", "f2"), "m2": ("m",)}


def needed(history: History, retained: str) -> str:
    return " ".join(sorted(needed_bases(commits_of(history), set(retained.split()))))


def commits_of(history: History) -> list[Commit]:
    generation = generations(history)
    return [
        Commit(CommitId(name), tuple(map(CommitId, parents)), "", "", 0, MetaRangeId(""), {}, at)
        for (name, parents), at in zip(history.items(), generation.values(), strict=True)
    ]


def generations(history: History) -> dict[str, int]:
    result: dict[str, int] = {}
    for commit, parents in history.items():
        result[commit] = 1 + max((result[parent] for parent in parents), default=0)
    return result


def bases_read(history: History, retained: set[str]) -> set[str]:
    """Return the commits whose trees are read when retained commits are merged."""
    generation, reads = generations(history).__getitem__, set[str]()

    def tree(name: str) -> str:
        reads.add(name)
        return name

    for left, right in combinations(sorted(retained), 2):
        bases = merge_bases(left, right, history.__getitem__, generation)  # type: ignore[arg-type]
        VirtualBases(history.__getitem__, generation, tree, lambda name, *_: name, "").of(bases)  # type: ignore[arg-type]
    return reads


def grown(chance: random.Random, history: History, retained: set[str], steps: int) -> set[str]:
    """Add commits with retained or new parents, and return all retained commits."""
    for number in range(steps):
        parents = chance.sample(sorted(retained), min(len(retained), chance.choice([1, 1, 2])))
        name = f"{number:03}-{len(history)}"
        history[name] = tuple(parents)
        retained = retained | {name}
    return retained


@for_each(
    ("history", "retained", "expected"),
    [
        (FORK, "l2 r", "c"),
        (FORK, "l2", ""),
        (FORK, "l2 l r c", ""),
        (FORK, "l2 r a", "c"),
        (CRISS_CROSS, "x2 y2", "a l r"),
        (CRISS_CROSS, "x2", ""),
        (CRISS_CROSS, "x2 y", "a l r"),
        (MERGED, "m2", ""),
        (MERGED, "m2 f2", ""),
        (MERGED, "m2 f", ""),
        (MERGED, "m2 m f2", ""),
        ({**MERGED, "g": ("f",)}, "m2 g", "f"),
    ],
)
def test_small_histories_need_their_merge_bases(
    history: History, retained: str, expected: str
) -> None:
    bases = needed(history, retained)
    assert set(expected.split()) <= set(bases.split())
    assert bases_read(history, set(retained.split())) - set(retained.split()) <= set(bases.split())
    if history is not CRISS_CROSS:
        assert bases == expected


def test_old_merges_need_no_bases() -> None:
    """Branches merged long ago need no base."""
    history: History = {"m0": ()}
    for number in range(1, 200):
        history[f"f{number}"] = (f"m{number - 1}",)
        history[f"m{number}"] = (f"m{number - 1}", f"f{number}")
    retained = {"m199", "m198", "f199"}
    assert needed_bases(commits_of(history), retained) == set()
    assert needed_bases(commits_of(history), {*retained, "f50"}) == set()
    history["f50b"] = ("f50",)
    assert needed_bases(commits_of(history), {*retained, "f50b"}) == {"f50"}


def check_random(seed: int) -> None:
    """Check that merges of retained commits, and of later ones, never need a lost tree."""
    chance = random.Random(seed)
    history: History = {"0": ()}
    grown(chance, history, {"0"}, chance.randint(1, 18))
    retained = set(chance.sample(sorted(history), chance.randint(1, min(5, len(history)))))
    there = retained | needed_bases(commits_of(history), retained)
    assert bases_read(history, retained) <= there, (seed, history, retained)
    for _ in range(3):
        before = set(history)
        retained = grown(chance, history, retained, chance.randint(1, 5))
        there |= set(history) - before
        assert bases_read(history, retained) <= there, (seed, history, retained)
        # Some of them expire.
        retained = set(chance.sample(sorted(retained), chance.randint(1, min(5, len(retained)))))
        there &= retained | needed_bases(commits_of(history), retained)
        assert bases_read(history, retained) <= there, (seed, history, retained)


@pytest.mark.parametrize("share", range(4))
def test_no_merge_needs_a_lost_tree(share: int) -> None:
    for seed in range(share, 1200, 4):
        check_random(seed)
