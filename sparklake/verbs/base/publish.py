"""Publication of commits by one compare-and-swap, with the garbage collection fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.planning.change_summary import encode_summary
from sparklake.graveler.ports import BranchMove, BranchState, LayerCut
from sparklake.graveler.ports.once import OnceRecord
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.signing import Signature


def publish(
    context: Context,
    state: BranchState,
    verb: str,
    parents: Sequence[Commit],
    meta_range_id: MetaRangeId,
    signature: Signature,
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
    result: Callable[[Commit], object] = lambda made: made,
) -> Commit:
    """Move a branch from the expected head to a new commit.

    The tree contains the staging layers `applied_layers`, or with a cut only their cut part.
    `result` returns the verb's result for its idempotency key. Raises the errors of `publish_all`.
    """
    made = signed_commit(parents, meta_range_id, signature)
    once = context.recorded(result(made))
    _publish(
        context, state, verb, commits=[made], applied_layers=applied_layers, cut=cut, once=once
    )
    return made


def signed_commit(
    parents: Sequence[Commit], meta_range_id: MetaRangeId, signature: Signature
) -> Commit:
    """Return an unpublished commit of a tree, with the current time."""
    return new_commit(
        parents=parents,
        committer=signature.committer,
        message=signature.message,
        creation_date=now(),
        meta_range_id=meta_range_id,
        metadata=signature.metadata,
    )


def publish_all(context: Context, state: BranchState, verb: str, commits: Sequence[Commit]) -> None:
    """Move a branch from the expected head over new commits, all or none.

    They are the result of the verb, and the fence is that of the verb's start. Raises
    RaceLostError, CollectionStartedError, and HookFailedError for a move rejected by a hook.
    """
    _publish(
        context, state, verb, commits, applied_layers=(), cut=None, once=context.recorded(commits)
    )


def _publish(
    context: Context,
    state: BranchState,
    verb: str,
    commits: Sequence[Commit],
    applied_layers: Sequence[int],
    cut: LayerCut | None,
    once: OnceRecord | None,
) -> None:
    move = BranchMove(
        branch=state.name,
        expected=state.commit_id,
        to=commits[-1].id,
        verb=verb,
        who=commits[-1].committer,
        commits=tuple(commits),
        applied_layers=tuple(applied_layers),
        cut=cut,
        change_summaries=change_summaries(context, commits),
        fence=state.fence,
        once=once,
        # The content of a branch with applied layers stays as it is.
        runs=None if applied_layers else state.runs,
    )
    with context.move_guard.around_move(context, move):
        context.refs.branches.move(move)


def change_summaries(context: Context, commits: Sequence[Commit]) -> dict[CommitId, bytes]:
    """Return the possible changes of commits against their first parents, without reads."""
    trees = {each.id: each.meta_range_id for each in commits}
    found = {}
    for each in commits:
        parent = each.parents[0]
        # The id of an empty tree is an empty text.
        before = trees.get(parent)
        if before is None:
            before = context.graph.commit(parent).meta_range_id
        summary = None
        if before != each.meta_range_id:
            summary = context.trees.change_summary(before, each.meta_range_id)
        if summary is not None:
            found[each.id] = encode_summary(summary)
    return found
