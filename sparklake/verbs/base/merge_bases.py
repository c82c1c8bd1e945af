"""Merge bases, and the three trees of a merge."""

from __future__ import annotations

from sparklake.errors import RefNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import merge_bases
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context


def merge_base(context: Context, left: Commit, right: Commit) -> Commit:
    """Return the best common ancestor with the highest generation.

    Raises RefNotFoundError without a common ancestor.
    """
    return best_common_ancestors(context, left, right)[0]


def common_ancestors(context: Context, left: Commit, right: Commit) -> list[Commit]:
    """Return the best common ancestors, highest generation first."""
    walk = Walk(context.graph)
    bases = merge_bases(left.id, right.id, walk.parents, walk.generation)
    return [walk.commit(each) for each in bases]


def best_common_ancestors(context: Context, left: Commit, right: Commit) -> list[Commit]:
    bases = common_ancestors(context, left, right)
    if not bases:
        raise RefNotFoundError(
            f"commits {left.id[:12]} and {right.id[:12]} have no common ancestor: their "
            "histories have different first commits"
        )
    return bases
