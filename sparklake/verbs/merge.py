"""Merge: base, source, dest."""

from __future__ import annotations

from dataclasses import replace

from sparklake.engine.execution import cut_for_tasks
from sparklake.engine.explanation import THREE_WAY, Explanation, explained
from sparklake.errors import NoChangesError
from sparklake.graveler.classification import Strategy
from sparklake.graveler.commits import STRATEGY_METADATA_KEY, Commit
from sparklake.graveler.ports import BranchState
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.bases import BaseTrees
from sparklake.verbs.context import Context
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import publish, until_it_moves
from sparklake.verbs.resolve import check_clean, get_branch, get_commit
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
    bases = BaseTrees(context)

    def attempt() -> Commit:
        state = get_branch(context, dest)
        return _merge_once(attempts, bases, theirs, state, strategy, signature)

    return until_it_moves(context, dest, attempt)


def explain_merge(context: Context, source: str, dest: str) -> Explanation:
    """Returns what a merge would do; it moves nothing.

    After a criss-cross it writes the base, which no ref leads to. Raises DirtyBranchError and
    NoChangesError as the merge would.
    """
    theirs = _source(context, source, dest)
    _, sides = _sides(BaseTrees(context), theirs, get_branch(context, dest))
    plan = plan_sides(context, sides)
    return explained("merge", plan, cut_for_tasks, context.runners, THREE_WAY)


def _source(context: Context, source: str, dest: str) -> Commit:
    if source == dest:
        raise NoChangesError(f"{source!r} cannot be merged into itself: name two different refs")
    return get_commit(context, source)


def _sides(bases: BaseTrees, source: Commit, state: BranchState) -> tuple[Commit, Sides]:
    """Returns the head and the trees of a merge that there is something to do for."""
    check_clean(state, "merge into it")
    dest = bases.context.graph.commit(state.commit_id)
    base = bases.get(source, dest)
    if source.meta_range_id == base:
        raise NoChangesError(
            f"nothing to merge: {state.name!r} has all that commit {source.id[:12]} changed"
        )
    return dest, Sides(base, source.meta_range_id, dest.meta_range_id)


def _merge_once(
    attempts: Attempts,
    bases: BaseTrees,
    source: Commit,
    state: BranchState,
    strategy: Strategy | None,
    signature: Signature,
) -> Commit:
    dest, sides = _sides(bases, source, state)
    tree_id = merged_tree(attempts, sides, strategy)
    label = strategy.value if strategy else DEFAULT_STRATEGY
    labelled = replace(signature, metadata={**signature.metadata, STRATEGY_METADATA_KEY: label})
    return publish(attempts.context, state, "merge", [dest, source], tree_id, labelled)
