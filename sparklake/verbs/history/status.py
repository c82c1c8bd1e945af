"""The status of a branch: its staged changes, and how far it is from another ref."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import ahead_behind
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.diffs.diff import diff_uncommitted


@dataclass(frozen=True, slots=True)
class BranchStatus:
    """A branch's head and staged changes, and its distance from the ref `against`.

    `ahead` commits are only on the branch, `behind` commits only on the other ref.
    """

    head: Commit
    added: int
    removed: int
    changed: int
    against: str
    ahead: int
    behind: int


def status(context: Context, branch: str, against: str | None = None) -> BranchStatus:
    """Return the status of a branch against a ref, by default the default branch.

    The staged changes are those of a commit. Only touched ranges are read.
    """
    other = against or context.info.default_branch
    state = get_branch(context, branch)
    head = context.graph.commit(state.commit_id)
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
