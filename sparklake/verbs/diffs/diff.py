"""Diffs of refs, trees and staged changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparklake.engine.explanation import LAYERED, TWO_WAY
from sparklake.engine.lazy_rows import RowShape
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.layers import plan_view
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.diffs import DIFF_DDL, DIFF_SCHEMA, DiffRow, diff_rows
from sparklake.udfs.diffs import Encode, diff_body, staged_diff_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import merge_base
from sparklake.verbs.base.resolve import ResolvedRef, get_branch, listed_commit, read_consistently
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.diffs.differences import Differences

DIFFS: RowShape[DiffRow] = RowShape(DIFF_SCHEMA, DIFF_DDL, diff_rows)


def diff_refs(
    context: Context, left: str, right: str, prefix: str, *, three_dot: bool
) -> Differences[DiffRow]:
    """Return the differences from left to right, each as committed.

    `three_dot` compares right with the merge base instead of left.
    """
    commit, other = (listed_commit(context, ref) for ref in (left, right))
    # As git has it: of several best common ancestors the first, not what they are merged to.
    start = merge_base(context, other, commit) if three_dot else commit
    within = prefix_interval(key_prefix(prefix))
    plan = plan_diff(context.tree(start).ranges, context.tree(other).ranges, within)
    return diff_of_plan(context, plan, f"{left} -> {right}", "diff", prefix)


def diff_uncommitted(context: Context, branch: str, prefix: str) -> Differences[DiffRow]:
    name, start = get_branch(context, branch).name, key_prefix(prefix)

    def plan(found: ResolvedRef) -> Plan:
        plan = StagedLayers(context, start).plan(found.tree(context), found.layers, plan_view)
        return plan.restricted(prefix_interval(start))

    found = read_consistently(context, name, plan)
    job, body = context.job("diff", name, LAYERED), partial(staged_diff_body, context.workspace)
    return Differences(found, DIFFS, job, body, prefix)


def diff_trees(
    context: Context, left: MetaRange, right: MetaRange, prefix: str, what: str
) -> Differences[DiffRow]:
    plan = plan_diff(left.ranges, right.ranges, prefix_interval(key_prefix(prefix)))
    return diff_of_plan(context, plan, what, "diff")


def diff_of_plan(
    context: Context, plan: Plan, what: str, verb: str, prefix: str = ""
) -> Differences[DiffRow]:
    job, body = context.job(verb, what, TWO_WAY), partial(diff_body, context.workspace)
    return Differences(plan, DIFFS, job, body, prefix)


def streamed_keys(context: Context, plan: Plan, encode: Encode, what: str) -> Iterator[bytes]:
    """Yield the `key` column of a two-way diff's encoded batches."""
    if not plan.pieces:
        return
    runner = context.runner(plan.records, "merge", what)
    size = runner.task_records(plan.records)
    work = encode_tasks(pack_tasks(divided(plan, size), size))
    body = partial(diff_body, context.workspace, encode=encode)
    for batch in runner.stream(body, work):
        yield from batch["key"].to_pylist()
