"""Commit and reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sparklake.engine.execution import cut_for_tasks
from sparklake.engine.explanation import LAYERED, Explanation, explained
from sparklake.errors import AlreadyCommittedError, InvalidInputError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import Interval, existing_key, key_prefix, prefix_interval, successor
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.graveler.planning.plan import Plan
from sparklake.graveler.ports import BranchMove, BranchState, Layer
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import Signature, publish, sign
from sparklake.verbs.base.resolve import ResolvedRef, get_branch, read_consistently
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.staging import StagedLayers, cut_out


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    message: str
    committer: str | None = None
    metadata: Mapping[str, str] | None = None
    allow_empty: bool = False
    path_filter: PathFilter = ALL


@restarts(versions=True)
def commit(context: Context, branch: str, options: CommitOptions) -> Commit:
    """Commit the staged changes of the given keys; other changes stay staged."""
    signature = sign(context, options.message, options.committer, options.metadata)
    check_namespace(context.store)
    attempts = Attempts(context, context.title("commit", branch), layered=True)
    staged = StagedLayers(context, path_filter=options.path_filter)
    had_changes = False
    fence: int | None = None

    def attempt() -> Commit:
        nonlocal had_changes, fence
        state = context.refs.staging.seal(branch, Action.COMMIT)
        # A later attempt reuses the ranges of the first one, so it keeps that fence.
        fence = state.fence if fence is None else fence
        state = replace(state, fence=fence)
        if had_changes and not state.layers:
            raise AlreadyCommittedError(
                f"another writer already committed the staged changes of {branch!r}, in "
                f"{state.commit_id} or before"
            )
        had_changes = bool(state.layers)
        return _commit_sealed(attempts, staged, state, signature, options)

    return with_branch_queue(context, branch, attempt)


def explain_commit(context: Context, branch: str, path_filter: PathFilter = ALL) -> Explanation:
    """Return the plan of a commit, without sealing or writing anything."""
    name = get_branch(context, branch).name

    def plan(resolved: ResolvedRef) -> Plan:
        staged = StagedLayers(context, dry=True, path_filter=path_filter)
        return staged.plan(context.tree(resolved.commit), resolved.layers)

    planned = read_consistently(context, name, plan)
    return explained("commit", planned, cut_for_tasks, context.runners, LAYERED)


def _commit_sealed(
    attempts: Attempts,
    staged: StagedLayers,
    state: BranchState,
    signature: Signature,
    options: CommitOptions,
) -> Commit:
    context, path_filter = attempts.context, options.path_filter
    head = context.graph.head(state)
    tree = apply_layers(attempts, context.tree(head), staged, state.layers, path_filter)
    applied = tuple(layer.id for layer in state.layers)
    if tree.id == head.meta_range_id and not options.allow_empty:
        if not path_filter.is_everything:
            raise NoChangesError(
                "nothing to commit: the staged changes of the selected paths do not alter "
                f"{state.name!r}; `sparklake diff` of the branch shows its staged changes"
            )
        # The layers change nothing. If they stayed, the branch would look dirty.
        context.refs.branches.move(
            BranchMove(
                branch=state.name,
                expected=head.id,
                to=head.id,
                verb="commit",
                who=signature.committer,
                applied_layers=applied,
                fence=state.fence,
            )
        )
        raise NoChangesError(f"nothing to commit: the staged changes do not alter {state.name!r}")
    cut = None if path_filter.is_everything else cut_out(context, state, path_filter, "commit")
    return publish(
        context,
        state,
        "commit",
        parents=[head],
        meta_range_id=tree.id,
        signature=signature,
        applied_layers=applied,
        cut=cut,
    )


def apply_layers(
    attempts: Attempts,
    base: MetaRange,
    staged: StagedLayers,
    layers: Sequence[Layer],
    path_filter: PathFilter = ALL,
) -> MetaRange:
    """Write the tree of staged layers over a base. Returns the base if nothing changes."""
    plan = staged.plan(base, layers)
    if not plan.stretches and not plan.adopted:
        return base
    outcome = attempts.run(
        partial(apply_body, attempts.context.workspace, path_filter=path_filter), plan
    )
    if not outcome.counts.total and not attempts.has_lost:
        return base
    return attempts.finish(plan, outcome, base.id)


def reset(context: Context, branch: str, prefix: str | None, path: str | None) -> None:
    """Drop staged changes: all, those under a prefix, or those of one object."""
    if prefix is not None and path is not None:
        raise InvalidInputError("choose one of a prefix and a path to reset")
    if path is not None:
        key = existing_key(path)
        _reset(context, branch, Interval(key, successor(key)))
    elif prefix is not None:
        _reset(context, branch, prefix_interval(key_prefix(prefix)))
    else:
        context.refs.staging.reset(branch, once=context.recorded(None))


@restarts(versions=True)
def _reset(context: Context, branch: str, within: Interval) -> None:
    check_namespace(context.store)

    def attempt() -> None:
        state = context.refs.staging.seal(branch, Action.RESET)
        if state.layers:
            cut = cut_out(context, state, PathFilter((within,)), "reset")
            once = context.recorded(None)
            context.refs.staging.drop(branch, state, cut, fence=state.fence, once=once)

    with_branch_queue(context, branch, attempt)
