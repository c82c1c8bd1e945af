"""Diffs between refs, two-way, three-way and three-dot."""

from __future__ import annotations

from sparklake.engine.explanation import THREE_WAY
from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.plan import plan_diff, plan_three_way_diff
from sparklake.udfs.read import three_way_diff_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.read import diff_of_plan, differences_of_plan
from sparklake.verbs.base.resolve import listed_commit
from sparklake.verbs.merges.bases import BaseTrees, merge_base


def diff_refs(
    context: Context, left: str, right: str, prefix: str, *, three_way: bool, three_dot: bool
) -> Differences:
    """Return the differences from left to right, each as committed.

    Three-way: the changes in left if right were merged into it, including conflicts. Three-dot: the
    changes of right since the merge base. Raises InvalidInputError for both at once.
    """
    if three_way and three_dot:
        raise InvalidInputError("choose one of a three-way and a three-dot diff")
    dest, source = (listed_commit(context, ref) for ref in (left, right))
    within, what = prefix_interval(key_prefix(prefix)), f"{left} -> {right}"
    if not three_way:
        # As git has it: of several best common ancestors the first, not what they are merged to.
        left_side = merge_base(context, source, dest) if three_dot else dest
        plan = plan_diff(context.tree(left_side).ranges, context.tree(source).ranges, within)
        return diff_of_plan(context, plan, what, "diff", prefix)
    base = BaseTrees(context).tree(source, dest).ranges
    trees = context.tree(source).ranges, context.tree(dest).ranges
    plan = plan_three_way_diff(base, *trees, within)
    return differences_of_plan(context, plan, three_way_diff_body, "diff", what, THREE_WAY, prefix)
