"""How conflicts are decided, in plain dicts: by the first rule that fits, or else by one way.

The names mean what docs/merging.md says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count

from sparklake.errors import MergeConflictError
from tests.scenarios.model.trees import Changes, Content, Diff, Tree, changed, three_way
from tests.support.globs import fits

Part = Callable[[str], bool]
"""Tells whether a path belongs to what a verb is told to keep to."""


@dataclass(frozen=True)
class Resolution:
    strategy: str | None = None
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """What the commit of a merge says of it."""
        if not self.rules:
            return self.strategy or "default"
        said = [f"{glob}={name}" for glob, name in self.rules]
        return "; ".join([*said, f"else {self.strategy or 'none'}"])

    def chosen(self, path: str) -> str:
        fitting = [name for glob, name in self.rules if fits(glob, path)]
        return [*fitting, self.strategy or "none"][0]


@dataclass(frozen=True)
class Decided:
    """What a merge changes in dest, source's objects that are kept beside, what is left."""

    rows: Diff
    changes: Changes
    kept: dict[str, Content]
    left: Diff

    def applied(self, dest: Tree) -> Tree:
        if self.left:
            raise MergeConflictError("", self.left, len(self.left))
        return self.beside(changed(dest, self.changes))

    def beside(self, tree: Tree) -> Tree:
        """Return a tree with what is kept at the first free places, or where the same lies."""
        after = dict(tree)
        for path, content in self.kept.items():
            place = next(each for each in _places(path) if after.get(each) in (None, content))
            after[place] = content
        return after


def decided(
    base: Tree, source: Tree, dest: Tree, resolution: Resolution, part: Part | None = None
) -> Decided:
    """Decide each row of the three-way diff that lies in a part, if one is given."""
    made = Decided([], {}, {}, [])
    for row in three_way(base, source, dest):
        kind, path, _ = row
        if part is not None and not part(path):
            continue
        made.rows.append(row)
        theirs, ours = source.get(path), dest.get(path)
        how = resolution.chosen(path) if kind == "conflict" else "source-wins"
        if how == "keep-both" and theirs is not None and ours is not None:
            made.kept[path] = theirs
        elif (side := _side(how, theirs, ours)) is None:
            made.left.append(row)
        elif side == "source":
            made.changes[path] = theirs
    return made


def merged(base: Tree, source: Tree, dest: Tree, resolution: Resolution) -> Tree:
    return decided(base, source, dest, resolution).applied(dest)


def _side(how: str, theirs: Content | None, ours: Content | None) -> str | None:
    """Return the side that wins; None leaves the conflict."""
    if how in ("source-wins", "dest-wins"):
        return how.removesuffix("-wins")
    if how == "none":
        return None
    if theirs is None or ours is None:
        return "dest" if theirs is None else "source"
    one, other = len(theirs.body), len(ours.body)
    return None if one == other else "source" if one > other else "dest"


def _places(path: str) -> Iterator[str]:
    numbers = (f".source-{number}" for number in count(2))
    return (_marked(path, mark) for mark in chain([".source"], numbers))


def _marked(path: str, mark: str) -> str:
    """Return a path with a mark behind its name, before its extension."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    return folder + slash + (stem + mark + dot + extension if stem else name + mark)


def part_of(paths: list[str]) -> Part:
    """Return the part of objects, and of prefixes, which end with a slash."""
    return lambda path: any(
        path.startswith(each) if each.endswith("/") else path == each for each in paths
    )
