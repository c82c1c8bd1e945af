"""Commits and the operations log of one repository, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import Operation
from sparklake.testing.memory.state import StateView


class MemoryCommits(StateView):
    def find(self, commit_id: CommitId) -> Commit | None:
        return self._state.commits.get(commit_id)

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        with self._state.lock:
            ids = sorted(each for each in self._state.commits if each.startswith(prefix))
            return [self._state.commits[each] for each in ids[:limit]]

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        with self._state.lock:
            all_commits = self._state.commits
            ancestors: dict[CommitId, Commit] = {}
            level = set(commit_ids)
            while level and len(ancestors) < limit:
                commits = [all_commits[name] for name in sorted(level) if name in all_commits]
                ancestors.update((commit.id, commit) for commit in commits)
                parents = {parent for commit in commits for parent in commit.parents}
                level = parents - ancestors.keys()
            return list(ancestors.values())[:limit]

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        with self._state.lock:
            ancestors: dict[CommitId, Commit] = {}
            waiting = [each for each in commit_ids if each in self._state.commits]
            while waiting:
                each = self._state.commits[waiting.pop()]
                ancestors[each.id] = each
                if each.generation >= least:
                    waiting += [parent for parent in each.parents if parent not in ancestors]
            return list(ancestors.values())

    def change_summaries(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        with self._state.lock:
            summaries = self._state.change_summaries
            return {each: summaries[each] for each in commit_ids if each in summaries}

    def expired(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        with self._state.lock:
            return self._state.expired.keys() & set(commit_ids)

    def collected(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        with self._state.lock:
            return self._state.collected.intersection(commit_ids)

    def restore(self, commits: Sequence[Commit]) -> None:
        with self._state.lock:
            for each in commits:
                self._state.commits[each.id] = each
                self._state.change_summaries.pop(each.id, None)

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        with self._state.lock:
            commit = self._state.commits.get(commit_id)
            while commit and steps:
                commit = self._state.commits.get(commit.parents[0]) if commit.parents else None
                steps -= 1
            return commit


class MemoryOperations(StateView):
    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        with self._state.lock:
            operations = [each for each in self._state.operations if ref in (None, each.ref)]
            return operations[::-1][:limit]

    def find(self, sequence: int) -> Operation | None:
        with self._state.lock:
            matches = (each for each in self._state.operations if each.sequence == sequence)
            return next(matches, None)

    def first(self) -> Operation | None:
        with self._state.lock:
            return next(iter(self._state.operations), None)

    def latest(self, refs: Collection[str] | None = None) -> Mapping[str, Operation]:
        with self._state.lock:
            latest = {each.ref: each for each in self._state.operations}
        return latest if refs is None else {name: latest[name] for name in refs if name in latest}

    def reached(self, commits: Mapping[str, CommitId], after: Operation | None = None) -> Set[str]:
        with self._state.lock:
            return {
                each.ref
                for each in self._state.operations
                if commits.get(each.ref, "") in (each.from_commit, each.to_commit)
                and (after is None or _moment(each) > _moment(after))
            }


def _moment(operation: Operation) -> tuple[int, int]:
    return operation.date, operation.microseconds
