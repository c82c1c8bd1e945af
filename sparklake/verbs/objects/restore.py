"""Restore selected paths of a branch to their state at any ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparklake.engine.execution import finish, run_plan
from sparklake.errors import NoChangesError, ObjectNotFoundError
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId
from sparklake.graveler.keys import existing_key
from sparklake.graveler.planning.filtered import filtered_plan, plan_restore
from sparklake.graveler.planning.path_filter import PathFilter, filter_for, first_paths
from sparklake.graveler.planning.plan import plan_diff
from sparklake.graveler.ports import BranchState, LayerCut, LayerKind
from sparklake.udfs.objects import restore_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.once import ResultCodec
from sparklake.verbs.base.resolve import kept_commit, open_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.staging import StagedLayers, cut_out
from sparklake.verbs.diffs.differences import diff_of_plan
from sparklake.verbs.objects.owners import warn_of_ranges


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore: differences of the paths from the branch's head."""

    commit: Commit
    added: int
    changed: int
    removed: int


def _stored(result: RestoreResult) -> Mapping[str, Any]:
    counts = {"added": result.added, "changed": result.changed, "removed": result.removed}
    return {"commit": result.commit.id, **counts}


def _restored(context: Context, stored: Mapping[str, Any]) -> RestoreResult:
    return RestoreResult(**{**stored, "commit": context.graph.commit(stored["commit"])})


RESULT: ResultCodec[RestoreResult] = ResultCodec(_stored, _restored)
"""The stored form of a restore, for idempotency keys."""


@restarts(versions=True)
def restore(context: Context, branch: str, ref: str, paths: Sequence[str]) -> RestoreResult:
    """Make the selected paths of a branch equal to a ref, by staging their differences.

    They replace earlier staged changes of these paths, in one step. Other staged changes stay.
    """
    path_filter = filter_for(paths)
    fence = open_branch(context, branch, Action.STAGE).fence
    commit = kept_commit(context, ref)
    check_namespace(context.store)

    def attempt() -> RestoreResult:
        state = context.refs.staging.seal(branch, Action.STAGE)
        run, counts = _staged_run(context, state, commit, path_filter)
        cut = cut_out(context, state, path_filter, "restore")
        if run == EMPTY_META_RANGE and not _takes(context, state, path_filter, cut):
            raise _nothing(context, state, ref, commit, paths)
        warn_of_ranges(context, state, context.trees.get(run).ranges, path_filter)
        result = RestoreResult(commit, counts.added, counts.changed, counts.removed)
        once = context.recorded(result)
        context.refs.staging.drop(branch, state, cut, run or None, fence=fence, once=once)
        return result

    return with_branch_queue(context, branch, attempt)


def _staged_run(
    context: Context, state: BranchState, commit: Commit, path_filter: PathFilter
) -> tuple[MetaRangeId, ChangeCounts]:
    """Write a run of the changes from a branch's head to a commit. Reads differing ranges."""
    head = context.graph.head(state)
    plan = plan_restore(context.tree(head).ranges, context.tree(commit).ranges, path_filter)
    runner = context.runner(plan.records, "restore", state.name)
    body = partial(restore_body, context.workspace, path_filter)
    outcome = run_plan(runner, body, plan, progress=context.runners.progress)
    return finish(context.store, context.workspace, outcome.pieces).id, outcome.counts


def _takes(context: Context, state: BranchState, path_filter: PathFilter, cut: LayerCut) -> bool:
    """Return whether cutting the selected keys removes anything from a branch's layers."""
    if any(
        cut.runs.get(each.id, each.meta_range_id) != each.meta_range_id for each in state.layers
    ):
        return True
    rows = [each for each in state.layers if each.kind is LayerKind.ROWS]
    return any(
        side.rows for side in StagedLayers(context, dry=True, path_filter=path_filter).sides(rows)
    )


def _nothing(
    context: Context, state: BranchState, ref: str, commit: Commit, paths: Sequence[str]
) -> NoChangesError | ObjectNotFoundError:
    """Return the error for equal sides: no changes, or no such path on either side."""
    ranges = context.tree(commit).ranges
    path_filter = filter_for(paths)
    plan = filtered_plan(plan_diff(ranges[:0], ranges, path_filter.hull), path_filter)
    rows = diff_of_plan(context, plan, ref, "restore")
    if any(existing_key(row.path) in path_filter for row in rows):
        return NoChangesError(
            f"nothing to restore: {first_paths(paths)} on {state.name!r} is the same at {ref!r}"
        )
    return ObjectNotFoundError(
        f"neither {ref!r} nor {state.name!r} has {first_paths(paths)}: use the path of an "
        "object, or a prefix that ends with '/'; `sparklake ls` shows the objects"
    )
