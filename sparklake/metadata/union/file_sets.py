"""Table files, grouped by the merge sides that contain them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias, TypeVar

BASE, SOURCE, DEST = "base", "source", "dest"


def side_names(bases: int) -> tuple[str, ...]:
    """Return the names of merge bases, source and dest."""
    return (BASE, *(f"{BASE} {each}" for each in range(2, bases + 1)), SOURCE, DEST)


SIDES = side_names(1)

Holders: TypeAlias = tuple[str, ...]
"""The names of the sides that have a file. Of several merge bases, `base` is the first."""

Key = TypeVar("Key", bound=Any)
File = TypeVar("File")


def file_sets(sides: Mapping[str, Mapping[Key, File]]) -> dict[Holders, dict[Key, File]]:
    """Group files by their holders, without those of all sides.

    Files that only one side has are a group of each side, possibly empty.
    """
    sets: dict[Holders, dict[Key, File]] = {(name,): {} for name in sides}
    for key in sorted({*chain.from_iterable(sides.values())}):
        holders = tuple(name for name, files in sides.items() if key in files)
        if len(holders) < len(sides):
            sets.setdefault(holders, {})[key] = sides[holders[0]][key]
    return sets


def changed_sets(
    sides: Mapping[str, Mapping[str, File]], differing: Mapping[tuple[int, int], Collection[str]]
) -> dict[Holders, dict[str, File]]:
    """Group the changed files, by path, by the sides that have them alike.

    `differing` are the paths that two sides do not have alike, by their positions in order.
    """
    files = list(sides.values())

    def first(at: int, path: str) -> int:
        """Return the first side with the file as one side has it."""
        alike = (each for each in range(at) if path in files[each])
        return next((each for each in alike if path not in differing[each, at]), at)

    states = {
        name: {(path, first(at, path)): each for path, each in files[at].items()}
        for at, name in enumerate(sides)
    }
    sets = file_sets(states).items()
    return {holders: {path: each for (path, _), each in some.items()} for holders, some in sets}


def bases_of(sets: Iterable[Holders]) -> list[str]:
    """Return the names of the merge bases, the first one first."""
    return sorted({name for each in sets for name in each} - {SOURCE, DEST})
