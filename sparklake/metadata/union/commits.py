"""Commits to a table in the histories of several branches, by their origin."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sparklake.metadata.union.conflicts import UnmergeableTableError


class TableCommit(Protocol):
    """A commit to a table. Its repetitions in other histories share its `origin`.

    `undone` are the origins of the undone commits, and `merged` those of commits of which this one
    has the effects, by a merge of rows.
    """

    @property
    def origin(self) -> str: ...
    @property
    def undone(self) -> Sequence[str]: ...
    @property
    def merged(self) -> Sequence[str]: ...


Commit = TypeVar("Commit", bound=TableCommit)


def undo_origin(undone: Iterable[str]) -> str:
    """Return the shared origin of all undos of the same commits."""
    return hashlib.sha256("\n".join(("undo", *sorted(undone))).encode()).hexdigest()


def standing(commits: Sequence[Commit], shared: Container[str] = ()) -> list[Commit]:
    """Return the effective commits, most recent first.

    Undos with an origin in `shared` are ignored.
    """
    effective = []
    undone: Counter[str] = Counter()
    for each in reversed(commits):
        if undone[each.origin] > 0:
            undone[each.origin] -= 1
            continue
        effective.append(each)
        if each.origin not in shared:
            undone.update(each.undone)
    return effective


def origins(commits: Iterable[Commit]) -> Counter[str]:
    return Counter(each.origin for each in commits)


def effects(commits: Iterable[Commit]) -> Counter[str]:
    """Count the commits by origin, including those with effects by a merge of rows."""
    return Counter(origin for each in commits for origin in (each.origin, *each.merged))


def still_to_undo(commits: Iterable[Commit], log: Sequence[Commit]) -> list[Commit]:
    """Return the commits in effect in a log, in order. Undos among `commits` are ignored."""
    targets = origins(commits)
    matches: Counter[str] = Counter()
    undone: Counter[str] = Counter()
    for each in reversed(log):
        if undone[each.origin] > 0:
            undone[each.origin] -= 1
        elif matches[each.origin] < targets[each.origin]:
            matches[each.origin] += 1
        else:
            undone.update(each.undone)
    return _split(commits, matches)[0]


def commits_but(commits: Iterable[Commit], others: Counter[str]) -> list[Commit]:
    """Drop as many commits of each origin as `others` counts."""
    return _split(commits, others)[1]


@dataclass(frozen=True, slots=True)
class CommitsApart(Generic[Commit]):
    """The commits of three sides since they diverged, in order."""

    base: Sequence[Commit]
    source: Sequence[Commit]
    dest: Sequence[Commit]

    @property
    def theirs(self) -> list[Commit]:
        """Source's commits since base."""
        return commits_but(self.source, origins(self.base))

    @property
    def since(self) -> list[Commit]:
        """Dest's commits since base."""
        return commits_but(self.dest, origins(self.base))

    @property
    def shared(self) -> set[str]:
        """The origins of base and source commits."""
        return {each.origin for each in (*self.base, *self.source)}

    @property
    def ours(self) -> list[Commit]:
        """The commits unique to dest."""
        shared = self.shared
        return [each for each in self.dest if each.origin not in shared]

    def undone(self) -> list[Commit]:
        """Return the commits of base that source lacks, to undo them in dest."""
        undone = commits_but(self.base, origins(self.source))
        if undone and self.theirs:
            raise UnmergeableTableError("source rewrote the table's history since base")
        merged = {origin for each in standing(self.dest) for origin in each.merged}
        if any(each.origin in merged for each in undone):
            raise UnmergeableTableError(
                "a merge of rows applied the commits to undo, so only rows can be undone"
            )
        return undone

    def repeated(self) -> list[Commit]:
        """Return the commits of source to repeat in dest, which has none of their effects."""
        theirs = self.theirs
        repeated = commits_but(theirs, effects(standing(self.since, origins(theirs))))
        present = effects((*self.base, *self.dest))
        if any(present[origin] for each in repeated for origin in each.merged):
            raise UnmergeableTableError(
                "source merged rows of commits that dest has, too, so they would exist twice"
            )
        return repeated


def _split(commits: Iterable[Commit], counts: Counter[str]) -> tuple[list[Commit], list[Commit]]:
    """Return the first `counts` commits of each origin, and the remaining ones."""
    remaining, matches, others = Counter(counts), list[Commit](), list[Commit]()
    for each in commits:
        is_match = remaining[each.origin] > 0
        remaining[each.origin] -= is_match
        (matches if is_match else others).append(each)
    return matches, others
