"""Reset: drop what is staged, in part."""

from __future__ import annotations

from functools import partial

from sparklake.engine.execution import finish, run_plan
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, key_prefix, object_key, prefix_interval, successor
from sparklake.graveler.planning import plan_replace
from sparklake.graveler.range_lists import Ranges, overlapping
from sparklake.udfs.writing import apply_body
from sparklake.verbs.context import Context
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import until_it_moves


def reset_object(context: Context, branch: str, path: str) -> None:
    """Drops what is staged of one object; where nothing is, that is no error."""
    key = object_key(path)
    _reset(context, branch, Interval(key, successor(key)))


def reset_prefix(context: Context, branch: str, prefix: str) -> None:
    """Drops what is staged of all objects whose paths begin with a prefix."""
    _reset(context, branch, prefix_interval(key_prefix(prefix)))


def _reset(context: Context, branch: str, within: Interval) -> None:
    check_namespace(context.store)

    def attempt() -> None:
        state = context.refs.staging.seal(branch, Action.RESET)
        runs = {}
        for layer in state.layers:
            if layer.meta_range_id is not None:
                ranges = context.trees.get(layer.meta_range_id).ranges
                if overlapping(ranges, within):
                    runs[layer.id] = _rest(context, branch, ranges, within)
        if state.layers:
            context.refs.staging.drop(branch, state, within, runs)

    until_it_moves(context, branch, attempt)


def _rest(context: Context, branch: str, run: Ranges, within: Interval) -> MetaRangeId:
    """Writes what is left of a run; only the ranges at the bounds of the interval are read."""
    plan = plan_replace(run, run[:0], within)
    runner = context.runner(plan.records, "reset", branch)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    return finish(context.store, context.workspace, outcome.pieces).id
