"""The base of a merge in plain dicts, by brute force: best common ancestors are merged."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

History = Mapping[str, Sequence[str]]
"""The parents of each commit."""

Tree = Mapping[str, Any]


def criss_crossed(
    chance: random.Random, rounds: int
) -> tuple[dict[str, tuple[str, ...]], str, str]:
    """Return lines with repeated merges of each other, and two of their heads."""
    history: dict[str, tuple[str, ...]] = {"a": ()}
    heads = ["a"] * chance.choice((2, 2, 3))
    for number in range(rounds):
        names = [f"{chance.randint(10, 99)}-{number}-{line}" for line in range(len(heads))]
        for name, head in zip(names, heads, strict=True):
            others = chance.sample(heads, chance.choice((0, 1, 1, 2)))
            history[name] = tuple(dict.fromkeys([head, *others]))
        heads = names
    return history, heads[0], heads[1]


def ancestry(history: History, commits: Iterable[str]) -> set[str]:
    """Return commits and all their ancestors."""
    visited: set[str] = set()
    waiting = [*commits]
    while waiting:
        each = waiting.pop()
        if each not in visited:
            visited.add(each)
            waiting.extend(history[each])
    return visited


def best_bases(history: History, left: Iterable[str], right: Iterable[str]) -> list[str]:
    """Return the best common ancestors, by descending generation, then by id."""
    common = ancestry(history, left) & ancestry(history, right)
    below = {each for other in common for each in ancestry(history, history[other])}

    def generation(commit: str) -> int:
        return 1 + max((generation(parent) for parent in history[commit]), default=0)

    return sorted(common - below, key=lambda each: (-generation(each), each))


def base_tree(
    history: History, trees: Mapping[str, Tree], left: Iterable[str], right: Iterable[str]
) -> Tree:
    """Return the base. Where ancestors disagree on a key, its value equals nothing else."""
    bases = best_bases(history, left, right)
    if not bases:
        return {}
    done, tree = [bases[-1]], trees[bases[-1]]
    for other in reversed(bases[:-1]):
        below = base_tree(history, trees, done, [other])
        tree = merged(below, tree, trees[other])
        done.append(other)
    return tree


def merged(base: Tree, source: Tree, dest: Tree) -> Tree:
    sides = {
        key: (base.get(key), source.get(key), dest.get(key)) for key in {*base, *source, *dest}
    }
    result = {key: _one(*each) for key, each in sides.items()}
    return {key: each for key, each in result.items() if each is not None}


def _one(base: object, source: object, dest: object) -> object:
    if source in (dest, base):
        return dest
    return source if dest == base else object()
