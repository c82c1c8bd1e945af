"""Change counts of commits and branches."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from sparklake._html import fields_html
from sparklake.errors import ExpiredError
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import ahead_behind
from sparklake.graveler.planning.plan import OpenPiece, Plan, plan_diff
from sparklake.graveler.ranges import record_count
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context, naming_collected
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.diffs.differences import diff_of_plan, diff_uncommitted


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """A commit, and its changes against its first parent; None for collected trees."""

    commit: Commit
    added: int | None
    removed: int | None
    changed: int | None
    has_expired: bool = False


def show(context: Context, ref: str) -> CommitSummary:
    """Return the summary of a ref's commit. Only differing ranges are read."""
    commit = get_commit(context, ref)
    has_expired = bool(context.refs.commits.expired([commit.id]))
    counts: Counter[str] | None = None
    with suppress(ExpiredError), naming_collected(context, [commit.id, *commit.parents[:1]]):
        trees = context.tree_before(commit), commit.meta_range_id
        left, right = (context.trees.get(each).ranges for each in trees)
        counts = _counts(context, ref, plan_diff(left, right))
    if counts is None:
        return CommitSummary(commit, None, None, None, has_expired)
    return CommitSummary(
        commit,
        counts[ChangeType.ADDED.value],
        counts[ChangeType.REMOVED.value],
        counts[ChangeType.CHANGED.value],
        has_expired,
    )


def _counts(context: Context, ref: str, plan: Plan) -> Counter[str]:
    """Return the number of differing objects by type. One-sided ranges are not read."""
    counts: Counter[str] = Counter()
    pieces: list[OpenPiece] = []
    for piece in plan.stretches:
        left, right = piece.sides
        if left.ranges and right.ranges:
            pieces.append(piece)
        else:
            counts[ChangeType.REMOVED.value] += record_count(left.ranges)
            counts[ChangeType.ADDED.value] += record_count(right.ranges)
    for batch in diff_of_plan(context, Plan(tuple(pieces)), ref, "show").batches():
        counts.update(batch.column("type").to_pylist())
    return counts


@dataclass(frozen=True, slots=True)
class BranchStatus:
    """A branch's head and staged changes, and its distance from the ref `against`."""

    head: Commit
    added: int
    removed: int
    changed: int
    against: str
    ahead: int
    behind: int

    def __repr__(self) -> str:
        counts = (f"{name}={value}" for name, value in self._fields().items())
        return f"BranchStatus({', '.join(counts)})"

    def _repr_html_(self) -> str:
        return fields_html(f"status at {self.head.id[:12]}", self._fields())

    def _fields(self) -> dict[str, object]:
        return {
            "head": self.head.id[:12],
            "message": self.head.message,
            "staged": f"{self.added:,} added, {self.removed:,} removed, {self.changed:,} changed",
            "ahead": f"{self.ahead:,} of {self.against}",
            "behind": f"{self.behind:,}",
        }


def status(context: Context, branch: str, against: str | None = None) -> BranchStatus:
    """Return the status of a branch against a ref, by default the default branch."""
    other = against or context.info.default_branch
    state = get_branch(context, branch)
    head = context.graph.head(state)
    target = get_commit(context, other)
    walk = Walk(context.graph)
    ahead, behind = ahead_behind(head.id, target.id, walk.parents, walk.generation)
    staged = diff_uncommitted(context, branch, "").summary() if state.layers else None
    return BranchStatus(
        head=head,
        added=staged.added if staged else 0,
        removed=staged.removed if staged else 0,
        changed=staged.changed if staged else 0,
        against=other,
        ahead=ahead,
        behind=behind,
    )
