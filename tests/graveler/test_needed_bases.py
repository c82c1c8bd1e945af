"""Which bases later merges may need: any history, with what merges of kept commits ask for."""

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


def needed(history: History, kept: str) -> str:
    return " ".join(sorted(needed_bases(commits_of(history), set(kept.split()))))


def commits_of(history: History) -> list[Commit]:
    generation = generations(history)
    return [
        Commit(CommitId(name), tuple(map(CommitId, parents)), "", "", 0, MetaRangeId(""), {}, at)
        for (name, parents), at in zip(history.items(), generation.values(), strict=True)
    ]


def generations(history: History) -> dict[str, int]:
    found: dict[str, int] = {}
    for commit, parents in history.items():
        found[commit] = 1 + max((found[parent] for parent in parents), default=0)
    return found


def asked(history: History, kept: set[str]) -> set[str]:
    """Return the commits whose trees merges of all pairs of kept commits ask for as bases."""
    generation, found = generations(history).__getitem__, set[str]()

    def tree(name: str) -> str:
        found.add(name)
        return name

    for left, right in combinations(sorted(kept), 2):
        bases = merge_bases(left, right, history.__getitem__, generation)  # type: ignore[arg-type]
        VirtualBases(history.__getitem__, generation, tree, lambda name, *_: name, "").of(bases)  # type: ignore[arg-type]
    return found


def grown(chance: random.Random, history: History, kept: set[str], steps: int) -> set[str]:
    """Add commits whose parents are kept or new; return those that are kept then."""
    for number in range(steps):
        parents = chance.sample(sorted(kept), min(len(kept), chance.choice([1, 1, 2])))
        name = f"{number:03}-{len(history)}"
        history[name] = tuple(parents)
        kept = kept | {name}
    return kept


@for_each(
    ("history", "kept", "expected"),
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
def test_bases_of_small_histories(history: History, kept: str, expected: str) -> None:
    found = needed(history, kept)
    assert set(expected.split()) <= set(found.split())
    assert asked(history, set(kept.split())) - set(kept.split()) <= set(found.split())
    if history is not CRISS_CROSS:
        assert found == expected


def test_a_long_line_with_merged_branches_keeps_few() -> None:
    """Branches that were merged long ago leave no base behind."""
    history: History = {"m0": ()}
    for number in range(1, 200):
        history[f"f{number}"] = (f"m{number - 1}",)
        history[f"m{number}"] = (f"m{number - 1}", f"f{number}")
    kept = {"m199", "m198", "f199"}
    assert needed_bases(commits_of(history), kept) == set()
    assert needed_bases(commits_of(history), {*kept, "f50"}) == set()
    history["f50b"] = ("f50",)
    assert needed_bases(commits_of(history), {*kept, "f50b"}) == {"f50"}


def check_random(seed: int) -> None:
    """No merge needs a tree that is gone: of kept commits, and of others made of these later."""
    chance = random.Random(seed)
    history: History = {"0": ()}
    grown(chance, history, {"0"}, chance.randint(1, 18))
    kept = set(chance.sample(sorted(history), chance.randint(1, min(5, len(history)))))
    there = kept | needed_bases(commits_of(history), kept)
    assert asked(history, kept) <= there, (seed, history, kept)
    for _ in range(3):
        before = set(history)
        kept = grown(chance, history, kept, chance.randint(1, 5))
        there |= set(history) - before
        assert asked(history, kept) <= there, (seed, history, kept)
        # Some of them expire.
        kept = set(chance.sample(sorted(kept), chance.randint(1, min(5, len(kept)))))
        there &= kept | needed_bases(commits_of(history), kept)
        assert asked(history, kept) <= there, (seed, history, kept)


@pytest.mark.parametrize("share", range(4))
def test_no_merge_needs_a_tree_that_is_gone(share: int) -> None:
    for seed in range(share, 1200, 4):
        check_random(seed)
