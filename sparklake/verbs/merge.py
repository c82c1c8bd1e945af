"""Merge: base, source, dest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sparklake.engine.execution import Outcome, cut_for_tasks
from sparklake.engine.explanation import THREE_WAY, Explanation, explained
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
)
from sparklake.graveler.classification import Strategy
from sparklake.graveler.commits import STRATEGY_METADATA_KEY, Commit
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.merge_base import merge_bases
from sparklake.graveler.planning import Plan, plan_merge
from sparklake.graveler.ports import BranchState
from sparklake.udfs.reading import DiffRow, diff_row
from sparklake.udfs.writing import merge_body
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.context import Context, Walk
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import publish, until_it_moves
from sparklake.verbs.resolve import get_branch, get_commit
from sparklake.verbs.signing import Signature

DEFAULT_STRATEGY = "default"


def merge(
    context: Context,
    source: str,
    dest: str,
    strategy: Strategy | None,
    signature: Signature,
) -> Commit:
    """Merges a ref into a branch as a commit with parents [dest, source].

    Raises MergeConflictError, DirtyBranchError, NoChangesError or RaceLostError; then nothing has
    moved.
    """
    theirs = _source(context, source, dest)
    check_namespace(context.store)
    attempts = Attempts(context, context.title("merge", f"{source} -> {dest}"))

    def attempt() -> Commit:
        return _merge_once(attempts, theirs, get_branch(context, dest), strategy, signature)

    return until_it_moves(context, dest, attempt)


def merge_base(context: Context, left: Commit, right: Commit) -> Commit:
    """Returns the best common ancestor; of several, the one of the highest generation.

    Raises RefNotFoundError where there is none.
    """
    bases = common_ancestors(context, left, right)
    if not bases:
        raise RefNotFoundError(
            f"commits {left.id[:12]} and {right.id[:12]} have no common ancestor: "
            "each stands on a first commit of its own"
        )
    return bases[0]


def common_ancestors(context: Context, left: Commit, right: Commit) -> list[Commit]:
    """Returns the common ancestors that are no ancestors of another one, best first."""
    walk = Walk(context.graph)
    bases = merge_bases(left.id, right.id, walk.parents, walk.generation)
    return [walk.commit(each) for each in bases]


def check_clean(state: BranchState, verb: str) -> None:
    """Raises DirtyBranchError for a branch with staged changes."""
    if state.layers:
        raise DirtyBranchError(
            f"{state.name!r} has uncommitted changes: commit or drop them before you {verb}"
        )


def explain_merge(context: Context, source: str, dest: str) -> Explanation:
    """Returns what a merge would do; it writes and moves nothing.

    Raises DirtyBranchError and NoChangesError as the merge would.
    """
    theirs = _source(context, source, dest)
    sides = _sides(context, theirs, get_branch(context, dest))
    plan = _plan(context, sides)
    return explained("merge", plan, cut_for_tasks, context.runners, THREE_WAY)


def _source(context: Context, source: str, dest: str) -> Commit:
    if source == dest:
        raise NoChangesError(f"{source!r} cannot be merged into itself: name two different refs")
    return get_commit(context, source)


def _sides(context: Context, source: Commit, state: BranchState) -> tuple[Commit, Commit, Commit]:
    """Returns base, source and dest of a merge that there is something to do for."""
    check_clean(state, "merge into it")
    dest = context.graph.commit(state.commit_id)
    base = merge_base(context, source, dest)
    if source.meta_range_id == base.meta_range_id:
        raise NoChangesError(
            f"nothing to merge: {state.name!r} has all that commit {source.id[:12]} changed"
        )
    return base, source, dest


def _plan(context: Context, sides: Sequence[Commit]) -> Plan:
    return plan_merge(*(context.tree(each).ranges for each in sides))


def _merge_once(
    attempts: Attempts,
    source: Commit,
    state: BranchState,
    strategy: Strategy | None,
    signature: Signature,
) -> Commit:
    sides = base, _, dest = _sides(attempts.context, source, state)
    if dest.meta_range_id == base.meta_range_id:
        tree_id = source.meta_range_id
    else:
        tree_id = _merged_tree(attempts, sides, strategy)
    label = strategy.value if strategy else DEFAULT_STRATEGY
    labelled = replace(signature, metadata={**signature.metadata, STRATEGY_METADATA_KEY: label})
    return publish(attempts.context, state, "merge", [dest, source], tree_id, labelled)


def _merged_tree(
    attempts: Attempts, sides: Sequence[Commit], strategy: Strategy | None
) -> MetaRangeId:
    plan = _plan(attempts.context, sides)
    outcome = attempts.run(partial(merge_body, attempts.context.workspace, strategy), plan)
    if outcome.conflict_count and strategy is None:
        raise _conflict_error(outcome)
    return attempts.finish(plan, outcome).id


def _conflict_error(outcome: Outcome) -> MergeConflictError:
    rows: list[DiffRow] = [diff_row(conflict) for conflict in outcome.conflicts]
    some = ", ".join(repr(row.path) for row in rows[:3])
    return MergeConflictError(
        f"{outcome.conflict_count} objects were changed on both sides: {some}"
        f"{', ...' if outcome.conflict_count > 3 else ''}; nothing was written. "
        "Change one side, or choose a strategy: source-wins or dest-wins",
        rows,
        outcome.conflict_count,
    )


def parse_strategy(strategy: Strategy | str | None) -> Strategy | None:
    """Returns a strategy by name; raises InvalidInputError."""
    if strategy is None:
        return None
    try:
        return Strategy(strategy)
    except ValueError as error:
        known = " or ".join(each.value for each in Strategy)
        raise InvalidInputError(f"{strategy!r} is no merge strategy: choose {known}") from error
