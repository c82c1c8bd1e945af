"""Commits and the trees of them: who stands on whom, by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sparklake import Commit
from sparklake.errors import RefNotFoundError
from tests.scenarios.model.trees import Tree
from tests.support import recursive


@dataclass(frozen=True)
class LogOptions:
    """What a log leaves out; `after` and `stop_at` are ids here."""

    limit: int | None = None
    after: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    stop_at: str | None = None
    first_parent: bool = False
    no_merges: bool = False
    part: Callable[[str], bool] | None = None


@dataclass
class History:
    commits: dict[str, Commit]
    trees: dict[str, Tree]

    def copy(self) -> History:
        return History(dict(self.commits), dict(self.trees))

    def base_tree(self, source: str, dest: str) -> Tree:
        """Return the base of every merge and three-way diff; nothing else chooses one.

        It is the tree of the best common ancestor: several that are no ancestors of each other, as
        criss-cross merges make them, are merged.
        """
        parents = {each: commit.parents for each, commit in self.commits.items()}
        return dict(recursive.base_tree(parents, self.trees, [source], [dest]))

    def best_ancestors(self, left: str, right: str) -> list[str]:
        common = self.ancestry(left) & self.ancestry(right)
        best = [
            each
            for each in common
            if not any(each in self.ancestry(other) - {other} for other in common)
        ]
        return sorted(best, key=lambda each: (-self.commits[each].generation, each))

    def ancestry(self, commit_id: str, *, first_parent: bool = False) -> set[str]:
        found: set[str] = set()
        waiting = [commit_id]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.commits[each].parents[: 1 if first_parent else None])
        return found

    def log(self, commit_id: str, asked: LogOptions) -> list[str]:
        if asked.part is not None:
            return self._log_of_part(commit_id, asked, asked.part)
        ids = self.ancestry(commit_id, first_parent=asked.first_parent)
        commits = sorted(map(self.commits.__getitem__, ids), key=_place)
        listed = [each.id for each in commits]
        for named in (asked.stop_at, asked.after):
            if named is not None and named not in listed:
                raise RefNotFoundError
        if asked.stop_at is not None:
            commits = commits[: listed.index(asked.stop_at) + 1]
        if asked.after is not None:
            commits = commits[listed.index(asked.after) + 1 :]
        return [each.id for each in _shown(commits, asked)][: asked.limit]

    def _log_of_part(
        self, commit_id: str, asked: LogOptions, part: Callable[[str], bool]
    ) -> list[str]:
        """Follows, of a merge that is equal to a parent, that parent alone."""
        waiting, seen, found = [commit_id], set(), []
        while waiting:
            each = self.commits[waiting.pop()]
            if each.id in seen:
                continue
            seen.add(each.id)
            parents = each.parents[: 1 if asked.first_parent else None]
            mine = self._part(each.id, part)
            same = [name for name in parents if self._part(name, part) == mine]
            if not same and (parents or mine):
                found.append(each)
            waiting += same[:1] or parents
        found.sort(key=_place)
        if asked.stop_at is not None:
            found = [each for each in found if _place(each) <= _place(self.commits[asked.stop_at])]
        if asked.after is not None:
            found = [each for each in found if _place(each) > _place(self.commits[asked.after])]
        return [each.id for each in _shown(found, asked)][: asked.limit]

    def _part(self, commit_id: str, part: Callable[[str], bool]) -> Tree:
        return {path: each for path, each in self.trees[commit_id].items() if part(path)}

    def blame(self, commit_id: str, path: str) -> str:
        """Return the commit to which a walk by one object alone comes."""
        at, content = commit_id, self.trees[commit_id][path]
        while True:
            same = [
                each for each in self.commits[at].parents if self.trees[each].get(path) == content
            ]
            if not same:
                return at
            at = same[0]


def _place(commit: Commit) -> tuple[int, int, str]:
    return -commit.generation, -commit.creation_date, commit.id


def _shown(commits: Iterable[Commit], asked: LogOptions) -> Iterator[Commit]:
    for each in commits:
        if asked.since is not None and each.creation_date < asked.since.timestamp():
            continue
        if asked.until is not None and each.creation_date > asked.until.timestamp():
            continue
        if asked.no_merges and len(each.parents) > 1:
            continue
        yield each
