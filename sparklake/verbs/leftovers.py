"""What is left of staged layers when some keys are taken out of them."""

from __future__ import annotations

from functools import partial

from sparklake.engine.execution import finish, run_plan
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.planning.filtered import plan_without
from sparklake.graveler.planning.path_filter import Choice
from sparklake.graveler.ports import BranchState, LayerCut
from sparklake.graveler.ranges import Ranges, overlaps
from sparklake.udfs.write import apply_body
from sparklake.verbs.context import Context


def cut_out(context: Context, state: BranchState, choice: Choice, verb: str) -> LayerCut:
    """Returns the cut of some keys out of sealed layers, what is left of runs being written."""
    runs = {}
    for layer in state.layers:
        if layer.meta_range_id is not None:
            ranges = context.trees.get(layer.meta_range_id).ranges
            if any(overlaps(ranges, each) for each in choice.intervals):
                runs[layer.id] = _rest(context, state.name, ranges, choice, verb)
    return LayerCut(choice.intervals, runs)


def _rest(context: Context, branch: str, run: Ranges, choice: Choice, verb: str) -> MetaRangeId:
    """Writes what is left of a run; only ranges that lead out of the chosen keys are read."""
    plan = plan_without(run, choice)
    runner = context.runner(plan.records, verb, branch)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    return finish(context.store, context.workspace, outcome.pieces).id
