"""Publish by one compare-and-swap, behind the fence of a collection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from sparklake.errors import CollectionBegunError, RaceLostError
from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.planning.change_summary import encode_summary
from sparklake.graveler.ports import BranchMove, BranchState, LayerCut
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.signing import Signature

MAX_ATTEMPTS = 10
_TURN_SECONDS = 10.0
_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 0.5

T = TypeVar("T")


def retry_lost_races(attempt: Callable[[], T]) -> T:
    """Call `attempt` until it does not lose a race; it must begin from the branch's head."""
    retrying = Retrying(
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
        retry=retry_if_exception(_is_race),
        reraise=True,
    )
    return retrying(attempt)


def with_branch_queue(context: Context, branch: str, attempt: Callable[[], T]) -> T:
    """Call `attempt` until it does not lose a race for a branch.

    Who has lost queues for the branch, and who comes while others queue does so, too. So nobody is
    unlucky for long, and few work in vain.
    """
    branches = context.refs.branches
    if not branches.is_turn_held(branch):
        try:
            return attempt()
        except RaceLostError as error:
            if not _is_race(error):
                raise
    with branches.turn(branch, _TURN_SECONDS):
        return retry_lost_races(attempt)


def publish(
    context: Context,
    state: BranchState,
    verb: str,
    parents: Sequence[Commit],
    meta_range_id: MetaRangeId,
    signature: Signature,
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
) -> Commit:
    """Move a branch from the head that was seen to a new commit of a tree; raise RaceLostError.

    `applied_layers` are the staging layers that the tree contains; with a cut, only that of them.
    """
    made = signed_commit(parents, meta_range_id, signature)
    publish_all(context, state, verb, [made], applied_layers, cut)
    return made


def signed_commit(
    parents: Sequence[Commit], meta_range_id: MetaRangeId, signature: Signature
) -> Commit:
    """Return a commit of a tree, made now and not yet published."""
    return new_commit(
        parents=parents,
        committer=signature.committer,
        message=signature.message,
        creation_date=now(),
        meta_range_id=meta_range_id,
        metadata=signature.metadata,
    )


def publish_all(
    context: Context,
    state: BranchState,
    verb: str,
    commits: Sequence[Commit],
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
) -> None:
    """Move a branch from the head that was seen over a row of new commits to the last of them.

    All of them are there then, or none. The state's fence is as of when the verb began. Raises
    RaceLostError, CollectionBegunError, and HookFailedError where a hook of
    the branch refuses them.
    """
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
    )
    with context.move_guard.around_move(context, move):
        context.refs.branches.move(move)


def change_summaries(context: Context, commits: Sequence[Commit]) -> dict[CommitId, bytes]:
    """Return what new commits may have changed of their first parents; nothing is read for it."""
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


def _is_race(error: BaseException) -> bool:
    # A subclass is final: trying again would not change it.
    return type(error) is RaceLostError


_ATTEMPTS = 5

P = ParamSpec("P")


def retry_on_gc(verb: Callable[P, T]) -> Callable[P, T]:
    """Return a verb that begins anew, with nothing of what it has made, after such a refusal."""

    @wraps(verb)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            retry=retry_if_exception_type(CollectionBegunError),
            reraise=True,
        )
        return retrying(verb, *arguments, **options)

    return run
