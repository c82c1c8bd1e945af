"""Cached commits, and walks over them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from sparklake.errors import CorruptFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, RepositoryRefs

_COMMITS_KEPT = 200_000
_FIRST_STRETCH = 64
_LAST_STRETCH = 4096


@dataclass(slots=True)
class CommitGraph:
    """A cache of immutable commits; walks fetch growing parts of history."""

    refs: RepositoryRefs
    _known: dict[CommitId, Commit] = field(default_factory=dict)
    _stretch: int = _FIRST_STRETCH

    def commit(self, commit_id: CommitId) -> Commit:
        commit = self._known.get(commit_id) or self.refs.commits.find(commit_id)
        if commit is None:
            raise CorruptFileError(f"the commit {commit_id} is referenced but does not exist")
        self._keep([commit])
        return commit

    def head(self, state: BranchState) -> Commit:
        if state.head is not None:
            self._keep([state.head])
        return self.commit(state.commit_id)

    def ancestor(self, commit_id: CommitId) -> Commit:
        """Return a commit, and prefetch its ancestors for a walk."""
        if commit_id not in self._known:
            self._keep(self.refs.commits.ancestry([commit_id], self._stretch))
            self._stretch = min(2 * self._stretch, _LAST_STRETCH)
        return self.commit(commit_id)

    def first_ancestor(self, commit: Commit, steps: int) -> Commit | None:
        """Return the ancestor `steps` first parents back, or None past the first commit."""
        if steps > _FIRST_STRETCH:
            ancestor = self.refs.commits.first_ancestor(commit.id, steps)
            return ancestor and self._known.setdefault(ancestor.id, ancestor)
        for _ in range(steps):
            if not commit.parents:
                return None
            commit = self.ancestor(commit.parents[0])
        return commit

    def known_below(self, commit: Commit, most: int, but: Container[CommitId]) -> list[CommitId]:
        """Return the nearest cached commits of at most this generation, except `but`."""
        below = (
            each
            for each in list(self._known.values())  # other threads may add some
            if each.generation <= commit.generation and each.id not in but
        )
        return [each.id for each in nlargest(most, below, key=lambda each: each.generation)]

    def find_known(self, commit_id: CommitId) -> Commit | None:
        return self._known.get(commit_id)

    def read_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Read commits and their ancestors down to a generation, in one round trip."""
        commits = self.refs.commits.ancestry_down_to(commit_ids, least)
        self._keep(commits)
        return commits

    def _keep(self, commits: Sequence[Commit]) -> None:
        for each in commits:
            self._known.pop(each.id, None)
            self._known[each.id] = each
        if len(self._known) > _COMMITS_KEPT:
            limit = max(_COMMITS_KEPT // 2, len(commits))
            for name in list(self._known)[:-limit]:
                self._known.pop(name, None)


@dataclass(slots=True)
class Walk:
    """A walk down a history. Reads generations in bands, for all lines together."""

    graph: CommitGraph
    _band: int = _FIRST_STRETCH
    _missing: dict[CommitId, int] = field(default_factory=dict)
    """The generation of a child of each parent that was met but not read."""

    def commit(self, commit_id: CommitId) -> Commit:
        """Return the start of the walk, or a parent met by it."""
        if commit_id in self._missing and self.graph.find_known(commit_id) is None:
            self._read(self._missing[commit_id] - self._band)
        return self.graph.commit(commit_id)

    def parents(self, commit_id: CommitId) -> Sequence[CommitId]:
        commit = self.commit(commit_id)
        self._meet(commit)
        return commit.parents

    def generation(self, commit_id: CommitId) -> int:
        return self.commit(commit_id).generation

    def _read(self, least: int) -> None:
        near = [each for each, above in self._missing.items() if above > least]
        commits = self.graph.read_down_to(near, least)
        for each in commits:
            self._meet(each)
        self._missing = {
            each: above
            for each, above in self._missing.items()
            if self.graph.find_known(each) is None
        }
        if len(commits) < _LAST_STRETCH:
            self._band *= 2
        elif self._band > 1:
            self._band //= 2

    def _meet(self, commit: Commit) -> None:
        for each in commit.parents:
            if self.graph.find_known(each) is None:
                self._missing[each] = min(
                    commit.generation, self._missing.get(each, commit.generation)
                )
