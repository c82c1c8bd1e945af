"""Removal of purged paths from branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import time_ns

from sparklake.graveler.chunks import chunked
from sparklake.graveler.guards import Action
from sparklake.graveler.planning.plan import SideStream
from sparklake.udfs.purges import Patterns
from sparklake.udfs.staged_rows import stage_body
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.publish import Signature, publish, sign
from sparklake.verbs.base.read import list_objects
from sparklake.verbs.base.resolve import check_clean, get_branch, open_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.staging import StagedLayers, write_meta_run
from sparklake.verbs.objects.stage import deletions

_BATCH_ROWS = 8192


def commit_removals(context: Context, patterns: Patterns, message: str) -> None:
    """Commit the removal of matching paths on each branch that has them.

    Nothing is staged, so each branch changes completely or not at all. All branches are checked
    first.
    """
    signature = sign(context, message or "Remove purged paths", None, None)
    states = [
        each for each in context.refs.branches.list() if any(_paths(context, each.name, patterns))
    ]
    for each in states:
        each.guard.check(each.name, Action.STAGE, Action.COMMIT)
        check_clean(each, "purge")
    for each in states:
        _commit_removal(context, each.name, patterns, signature)


@restarts()
def _commit_removal(
    context: Context, branch: str, patterns: Patterns, signature: Signature
) -> None:
    fence = get_branch(context, branch).fence
    title = context.title("purge", branch)
    encode = partial(stage_body, context.workspace, time_ns())
    rows = map(deletions, chunked(_paths(context, branch, patterns), _BATCH_ROWS))
    removal = write_meta_run(context, context.runner(0, "purge", branch), encode, rows)
    sides = [SideStream(tuple(removal.ranges))]
    attempts, staged = Attempts(context, title, layered=True), StagedLayers(context)

    def attempt() -> None:
        # Later attempts reuse the ranges of the first one, so they keep its fence.
        state = replace(open_branch(context, branch, Action.COMMIT), fence=fence)
        check_clean(state, "purge")
        head = context.graph.head(state)
        plan = staged.plan_sides(context.tree(head), sides)
        outcome = attempts.run(partial(apply_body, context.workspace), plan)
        tree = attempts.finish(plan, outcome, head.meta_range_id)
        if tree.id != head.meta_range_id:
            publish(context, state, "commit", [head], tree.id, signature)

    with_branch_queue(context, branch, attempt)


def _paths(context: Context, branch: str, patterns: Patterns) -> Iterator[str]:
    return (each.path for each in list_objects(context, branch, "") if each.path in patterns)
