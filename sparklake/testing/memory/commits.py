"""Commits and the operations log of one repository, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import Operation
from sparklake.testing.memory.state import State


class MemoryCommits:
    """The commits of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, commit_id: CommitId) -> Commit | None:
        """Return a commit."""
        return self._state.commits.get(commit_id)

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        """Return up to `limit` commits whose id begins with a prefix, in the order of ids."""
        with self._state.lock:
            ids = sorted(found for found in self._state.commits if found.startswith(prefix))
            return [self._state.commits[found] for found in ids[:limit]]

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        """Return the given commits and their ancestors, nearest first, at most `limit`."""
        with self._state.lock:
            known = self._state.commits
            found: dict[CommitId, Commit] = {}
            level = set(commit_ids)
            while level and len(found) < limit:
                commits = [known[name] for name in sorted(level) if name in known]
                found.update((commit.id, commit) for commit in commits)
                level = {parent for commit in commits for parent in commit.parents} - found.keys()
            return list(found.values())[:limit]

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Return commits, their ancestors down to a generation, and the parents of all."""
        with self._state.lock:
            found: dict[CommitId, Commit] = {}
            waiting = [each for each in commit_ids if each in self._state.commits]
            while waiting:
                each = self._state.commits[waiting.pop()]
                found[each.id] = each
                if each.generation >= least:
                    waiting += [parent for parent in each.parents if parent not in found]
            return list(found.values())

    def change_summaries(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        """Return the stored change summaries of commits, where they exist."""
        with self._state.lock:
            kept = self._state.change_summaries
            return {each: kept[each] for each in commit_ids if each in kept}

    def expired(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        """Return which of some commits have expired."""
        with self._state.lock:
            return self._state.expired.keys() & set(commit_ids)

    def collected(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        """Return which of some commits have lost their trees."""
        with self._state.lock:
            return self._state.collected.intersection(commit_ids)

    def restore(self, commits: Sequence[Commit]) -> None:
        """Add commits, and replace those of the same ids, without change summaries."""
        with self._state.lock:
            for each in commits:
                self._state.commits[each.id] = each
                self._state.change_summaries.pop(each.id, None)

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        """Return the commit `steps` first parents back; None past the first."""
        with self._state.lock:
            found = self._state.commits.get(commit_id)
            while found and steps:
                found = self._state.commits.get(found.parents[0]) if found.parents else None
                steps -= 1
            return found


class MemoryOperations:
    """The log of ref moves of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest operations, newest first, of one ref or of all."""
        with self._state.lock:
            found = [each for each in self._state.operations if ref in (None, each.ref)]
            return found[::-1][:limit]

    def find(self, sequence: int) -> Operation | None:
        """Return the operation with a number."""
        with self._state.lock:
            found = (each for each in self._state.operations if each.sequence == sequence)
            return next(found, None)

    def first(self) -> Operation | None:
        """Return the oldest operation."""
        with self._state.lock:
            return next(iter(self._state.operations), None)

    def latest(self, refs: Collection[str] | None = None) -> Mapping[str, Operation]:
        """Return the latest operation of each of some refs that has one, or of all."""
        with self._state.lock:
            found = {each.ref: each for each in self._state.operations}
        return found if refs is None else {name: found[name] for name in refs if name in found}

    def reached(self, commits: Mapping[str, CommitId], after: Operation | None = None) -> Set[str]:
        """Return which of some refs an operation has moved to or from the commit given for it."""
        with self._state.lock:
            return {
                each.ref
                for each in self._state.operations
                if commits.get(each.ref, "") in (each.from_commit, each.to_commit)
                and (after is None or _moment(each) > _moment(after))
            }


def _moment(operation: Operation) -> tuple[int, int]:
    return operation.date, operation.microseconds
