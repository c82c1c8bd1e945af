"""Commit: staged layers over the head, published by one compare-and-swap."""

from __future__ import annotations

from functools import partial

from sparklake.engine.execution import finish, run_plan
from sparklake.errors import ChangesTakenError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.planning import plan_apply
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.writing import apply_body
from sparklake.verbs.context import Context
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import publish, until_it_lands
from sparklake.verbs.signing import Signature
from sparklake.verbs.staged import staged_intervals, staged_sides


def commit(
    context: Context, branch: str, signature: Signature, *, allow_empty: bool = False
) -> Commit:
    """Commits what is staged on a branch.

    Raises NoChangesError when that is nothing, ChangesTakenError when another writer has committed
    it meanwhile, RaceLostError when the branch kept moving.
    """
    check_namespace(context.store)
    had_changes = False

    def attempt() -> Commit:
        nonlocal had_changes
        state = context.refs.staging.seal(branch)
        if had_changes and not state.layers:
            raise ChangesTakenError(
                f"what was staged on {branch!r} has just been committed by another writer, "
                f"in {state.commit_id} or before"
            )
        had_changes = bool(state.layers)
        return _commit_sealed(context, state, signature, allow_empty=allow_empty)

    return until_it_lands(attempt)


def _commit_sealed(
    context: Context, state: BranchState, signature: Signature, *, allow_empty: bool
) -> Commit:
    head = context.graph.commit(state.commit_id)
    tree = apply_layers(context, context.tree(head), state)
    applied = tuple(layer.id for layer in state.layers)
    if tree.id == head.meta_range_id and not allow_empty:
        # The layers hold only what the head holds already: they would make the branch look dirty.
        who = signature.committer
        context.refs.branches.move(
            BranchMove(state.name, head.id, head.id, "commit", who, applied_layers=applied)
        )
        raise NoChangesError(f"nothing is staged on {state.name!r} that would change it")
    return publish(context, state, "commit", [head], tree.id, signature, applied)


def apply_layers(context: Context, base: MetaRange, state: BranchState) -> MetaRange:
    """Writes the tree of staged layers over a base; the base itself when they change nothing."""
    sides = staged_sides(context, state.layers)
    plan = plan_apply(base.ranges, sides, staged_intervals(context, base.ranges, sides))
    if not plan.stretches:
        return base
    runner = context.runners.choose(plan.records)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    if not outcome.counts.total:
        return base
    return finish(context.store, context.workspace, outcome.pieces)
