"""Branches and tags, together with the operations log."""

from __future__ import annotations

from collections.abc import Mapping

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, Operation, TagInfo
from sparklake.verbs.base.context import Context

Named = BranchState | TagInfo


def find_ref(context: Context, name: str) -> Named | None:
    return context.refs.branches.find(name) or context.refs.tags.find(name)


def read_ref(context: Context, name: str) -> tuple[Named | None, Operation | None]:
    """Return a consistent pair of a ref and its latest operation."""
    log = context.refs.operations
    operation = log.latest([name]).get(name)
    while True:
        ref = find_ref(context, name)
        again = log.latest([name]).get(name)
        if again == operation:
            return ref, operation
        operation = again  # The ref has moved between the reads.


def contains_commit(commits: Mapping[CommitId, Commit], head: CommitId, target: CommitId) -> bool:
    """Return whether a history contains a commit, judging by the given commits only."""
    least = commits[target].generation if target in commits else 0
    visited, waiting = {head}, [head]
    while waiting:
        each = waiting.pop()
        if each == target:
            return True
        if each in commits and commits[each].generation > least:
            new = [parent for parent in commits[each].parents if parent not in visited]
            visited.update(new)
            waiting += new
    return False
