"""Merge: base, source, dest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparklake.engine.execution import cut_for_tasks
from sparklake.engine.explanation import THREE_WAY, Explanation, explained
from sparklake.errors import NoChangesError, RefNotFoundError
from sparklake.graveler.classification import Strategy
from sparklake.graveler.commits import STRATEGY_METADATA_KEY, Commit
from sparklake.graveler.merge_base import merge_bases
from sparklake.graveler.ports import BranchState
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.context import Context, Walk
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import publish, until_it_moves
from sparklake.verbs.resolve import check_clean, get_branch, get_commit, open_branch
from sparklake.verbs.signing import Signature
from sparklake.verbs.three_way import Sides, merged_tree, plan_sides

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
        return _merge_once(attempts, theirs, open_branch(context, dest), strategy, signature)

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


def explain_merge(context: Context, source: str, dest: str) -> Explanation:
    """Returns what a merge would do; it writes and moves nothing.

    Raises DirtyBranchError and NoChangesError as the merge would.
    """
    theirs = _source(context, source, dest)
    sides = _sides(context, theirs, get_branch(context, dest))
    plan = plan_sides(context, _trees(sides))
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


def _trees(sides: Sequence[Commit]) -> Sides:
    return Sides(*(each.meta_range_id for each in sides))


def _merge_once(
    attempts: Attempts,
    source: Commit,
    state: BranchState,
    strategy: Strategy | None,
    signature: Signature,
) -> Commit:
    sides = _, _, dest = _sides(attempts.context, source, state)
    tree_id = merged_tree(attempts, _trees(sides), strategy)
    label = strategy.value if strategy else DEFAULT_STRATEGY
    labelled = replace(signature, metadata={**signature.metadata, STRATEGY_METADATA_KEY: label})
    return publish(attempts.context, state, "merge", [dest, source], tree_id, labelled)
