"""A repository as plain values, and the effect of each request when requests run one at a time.

A commit, a merge and a few others take two steps. They read the repository first (`look`), and
change it later (`act`). Both steps happen between the request and its answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from hashlib import blake2b
from typing import Any

Tree = Mapping[str, str]
"""The bodies of objects, by path."""

Layer = tuple[tuple[str, str | None], ...]
"""Staged bodies in the order of paths. None deletes a path."""


class Version:
    """A commit: an id, the parents and the tree. Versions of equal digests are equal."""

    __slots__ = ("digest", "id", "parents", "tree")

    def __init__(self, name: str, parents: tuple[Version, ...], tree: Tree) -> None:
        self.id = name
        self.parents = parents
        self.tree = dict(sorted(tree.items()))
        content = repr((name, [each.digest for each in parents], self.tree))
        self.digest: str = blake2b(content.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: its head, the head before its latest move, and its staged layers, oldest first.

    `epoch` changes whenever layers are removed. The top layer accepts writes unless it is sealed.
    """

    head: Version
    before: Version | None = None
    layers: tuple[Layer, ...] = ()
    sealed: bool = True
    epoch: int = 0

    def staged(self, changes: Mapping[str, str | None]) -> Branch:
        """Return the branch with more staged changes in its top layer."""
        if self.sealed:
            return replace(self, layers=(*self.layers, _layer(changes)), sealed=False)
        *below, top = self.layers
        return replace(self, layers=(*below, _layer({**dict(top), **changes})))

    def visible_tree(self) -> Tree:
        """Return the tree of the head with all staged changes."""
        return applied(self.head.tree, self.layers)


@dataclass(frozen=True, slots=True)
class Fact:
    """A commit in the final repository: the ids of its parents, and its tree.

    The tree is None if it was deleted.
    """

    parents: tuple[str, ...]
    tree: Tree | None


@dataclass(frozen=True)
class Facts:
    """All final commits, and the ids in answers to requests."""

    commits: Mapping[str, Fact]
    answered: Set[str]

    @cached_property
    def _unanswered(self) -> Mapping[Any, Sequence[str]]:
        by_parents = defaultdict(list)
        for name, fact in sorted(self.commits.items()):
            if name not in self.answered:
                tree = None if fact.tree is None else _items(fact.tree)
                by_parents[fact.parents, tree].append(name)
        return by_parents

    def agree(self, name: str, parents: tuple[str, ...], tree: Tree) -> bool:
        """Tell whether a commit was found as described."""
        fact = self.commits.get(name)
        return fact is not None and fact.parents == parents and fact.tree in (None, tree)

    def find(self, parents: tuple[str, ...], tree: Tree, in_use: Container[str]) -> str | None:
        """Return the id of a commit without an answer to a request."""
        matches = [
            each
            for key in (_items(tree), None)
            for each in self._unanswered.get((parents, key), ())
        ]
        return next((each for each in matches if each not in in_use), None)


@dataclass(frozen=True)
class State:
    """A repository at one moment.

    A commit of a request without an answer has a placeholder for its id. `names` has the ids of
    placeholders from later reads. With `facts`, all ids are known.
    """

    branches: Mapping[str, Branch]
    tags: Mapping[str, Version] = field(default_factory=dict)
    versions: Mapping[str, Version] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    facts: Facts | None = None

    @cached_property
    def key(self) -> Any:
        """A hashable value, the same for equal states."""
        return (
            frozenset(self.branches.items()),
            frozenset(self.tags.items()),
            frozenset(self.versions.values()),
            frozenset(self.names.items()),
            self.epoch,
        )

    def find(self, ref: str) -> Version | None:
        """Return the commit of a branch, a tag or an id."""
        if ref in self.branches:
            return self.branches[ref].head
        if ref in self.tags:
            return self.tags[ref]
        placeholder = next((each for each, name in self.names.items() if name == ref), ref)
        return self.versions.get(placeholder)

    def identify(self, version: Version, name: str) -> State | None:
        """Return the state after a version gets an id; None if it already has a different one.

        A placeholder takes the id if no version has it.
        """
        identity = self.name_of(version)
        if identity == name:
            return self
        if not is_placeholder(identity) or self.find(name) is not None:
            return None
        return replace(self, names={**self.names, version.id: name})

    @property
    def explains_commits(self) -> bool:
        """Whether all final commits exist."""
        return self.facts is None or self.facts.commits.keys() <= self.versions.keys()

    def name_of(self, version: Version) -> str:
        """Return the id of a version as far as it is known."""
        return self.names.get(version.id, version.id)

    def committed(
        self, parents: tuple[Version, ...], tree: Tree, answer: str | None, placeholder: str
    ) -> Version | None:
        """Return a new version; None if another one has its id, or if the facts differ.

        `answer` is its id. None means that no client got it.
        """
        name: str | None = answer or placeholder
        if self.facts is not None:
            ids = tuple(map(self.name_of, parents))
            if answer is None:
                name = self.facts.find(ids, tree, self.versions)
            elif not self.facts.agree(answer, ids, tree):
                name = None
        if name is None or self.find(name) is not None:
            return None
        return Version(name, parents, tree)

    def with_branch(self, name: str, branch: Branch | None) -> State:
        """Return the state with a branch in a new form, or without it."""
        others = {each: value for each, value in self.branches.items() if each != name}
        return replace(self, branches=others if branch is None else {**others, name: branch})

    def moved(self, name: str, to: Version, dropped: int = 0) -> State:
        """Return the state after a move of a branch, without its `dropped` oldest layers."""
        branch, epoch = self.branches[name], self.epoch
        if to != branch.head:
            branch = replace(branch, head=to, before=branch.head)
        if dropped:
            epoch += 1
            layers = branch.layers[dropped:]
            branch = replace(branch, layers=layers, sealed=branch.sealed or not layers, epoch=epoch)
        versions = {**self.versions, to.id: to}
        return replace(self, versions=versions, epoch=epoch).with_branch(name, branch)


def is_placeholder(name: str) -> bool:
    """Tell whether a name stands for the unknown id of a commit."""
    return name.startswith("?")


def start(heads: Mapping[str, tuple[str, Tree]]) -> State:
    """Return a state with clean branches at the given heads."""
    versions_by_branch = {name: Version(head, (), tree) for name, (head, tree) in heads.items()}
    versions = {each.id: each for each in versions_by_branch.values()}
    return State({name: Branch(each) for name, each in versions_by_branch.items()}, {}, versions)


# --- trees ----------------------------------------------------------------------------------------


def applied(tree: Tree, layers: Iterable[Layer]) -> Tree:
    """Return a tree with staged layers on top, oldest first."""
    merged: dict[str, str | None] = dict(tree)
    for layer in layers:
        merged.update(layer)
    return {path: body for path, body in merged.items() if body is not None}


def _items(tree: Tree) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(tree.items()))


def _layer(changes: Mapping[str, str | None]) -> Layer:
    return tuple(sorted(changes.items()))


def ancestors(version: Version) -> set[Version]:
    """Return a version and all its ancestors."""
    result, new = {version}, [version]
    while new:
        new = [each for parent in new for each in parent.parents if each not in result]
        result.update(new)
    return result


def merge_bases(source: Version, dest: Version) -> list[Version]:
    """Return the best common ancestors, by digest."""
    common = ancestors(source) & ancestors(dest)
    covered = {each for one in common for parent in one.parents for each in ancestors(parent)}
    return sorted(common - covered, key=lambda each: each.digest)


def base_tree(source: Version, dest: Version) -> Tree:
    """Return the tree of the merge base; several bases are merged virtually."""
    bases = merge_bases(source, dest)
    return reduce(_virtual, bases, Version("", (), {})).tree if bases else {}


def _virtual(one: Version, other: Version) -> Version:
    if not one.id:
        return other
    conflicts: dict[str, str] = {}
    base = base_tree(one, other)
    for path in {*base, *one.tree, *other.tree}:
        sides = base.get(path), one.tree.get(path), other.tree.get(path)
        value, is_conflict = _one_of(*sides)
        if is_conflict:
            value = f"\0disagreement {one.digest} {other.digest}"
        if value is not None:
            conflicts[path] = value
    return Version(f"\0{one.digest}{other.digest}", (one, other), conflicts)


def merged(base: Tree, source: Tree, dest: Tree, strategy: str | None) -> Tree | None:
    """Return the three-way merge; None for a conflict without a strategy."""
    result = {}
    for path in {*base, *source, *dest}:
        ours, theirs = source.get(path), dest.get(path)
        value, is_conflict = _one_of(base.get(path), ours, theirs)
        if is_conflict:
            if strategy is None:
                return None
            value = ours if strategy == "source-wins" else theirs
        if value is not None:
            result[path] = value
    return result


def _one_of(base: str | None, source: str | None, dest: str | None) -> tuple[str | None, bool]:
    """Return the merged value, and whether source and dest are in conflict."""
    if source in (dest, base):
        return dest, False
    return (source, False) if dest == base else (None, True)


def first_parents(version: Version) -> Iterator[Version]:
    """Yield a version, its first parent, and so on."""
    yield version
    while version.parents:
        version = version.parents[0]
        yield version
