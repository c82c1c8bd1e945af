"""Diffs between refs, two-way, three-way and three-dot."""

from __future__ import annotations

from sparklake.engine.explanation import THREE_WAY
from sparklake.engine.lazy_rows import RowShape
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.plan import plan_diff, plan_three_way_diff
from sparklake.udfs.read import DiffRow
from sparklake.udfs.three_way import (
    THREE_WAY_DDL,
    THREE_WAY_SCHEMA,
    ThreeWayRow,
    three_way_diff_body,
    three_way_rows,
)
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.read import diff_of_plan, differences_of_plan
from sparklake.verbs.base.resolve import listed_commit
from sparklake.verbs.merges.bases import BaseTrees, merge_base

THREE_WAY_ROWS: RowShape[ThreeWayRow] = RowShape(THREE_WAY_SCHEMA, THREE_WAY_DDL, three_way_rows)


def diff_refs(
    context: Context, left: str, right: str, prefix: str, *, three_dot: bool
) -> Differences[DiffRow]:
    """Return the differences from left to right, each as committed.

    Three-dot: the changes of right since the merge base.
    """
    commit, other = (listed_commit(context, ref) for ref in (left, right))
    # As git has it: of several best common ancestors the first, not what they are merged to.
    start = merge_base(context, other, commit) if three_dot else commit
    within = prefix_interval(key_prefix(prefix))
    plan = plan_diff(context.tree(start).ranges, context.tree(other).ranges, within)
    return diff_of_plan(context, plan, f"{left} -> {right}", "diff", prefix)


def diff_three_way(
    context: Context, dest: str, source: str, prefix: str
) -> Differences[ThreeWayRow]:
    """Return the changes in dest if source were merged into it, including conflicts.

    Both are compared as committed.
    """
    ours, theirs = (listed_commit(context, ref) for ref in (dest, source))
    within, what = prefix_interval(key_prefix(prefix)), f"{dest} -> {source}"
    base = BaseTrees(context).tree(theirs, ours).ranges
    trees = context.tree(theirs).ranges, context.tree(ours).ranges
    plan = plan_three_way_diff(base, *trees, within)
    return differences_of_plan(
        context, plan, THREE_WAY_ROWS, three_way_diff_body, "diff", what, THREE_WAY, prefix
    )
