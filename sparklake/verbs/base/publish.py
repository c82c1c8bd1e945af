"""Publishing by one compare-and-swap, protected by the fence of garbage collection."""

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
    """Retry `attempt` while it loses races; it must start from the branch's head."""
    retrying = Retrying(
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
        retry=retry_if_exception(_is_race),
        reraise=True,
    )
    return retrying(attempt)


def with_branch_queue(context: Context, branch: str, attempt: Callable[[], T]) -> T:
    """Retry `attempt` while it loses races for a branch, in the branch's queue.

    After losing a race, wait in the branch's FIFO queue. New writers queue, too, while others wait.
    This bounds starvation and wasted work.
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
    """Move a branch from the expected head to a new commit; raise RaceLostError.

    `applied_layers` are the staging layers that the tree contains. With a cut, it contains only the
    cut part of them.
    """
    made = signed_commit(parents, meta_range_id, signature)
    publish_all(context, state, verb, [made], applied_layers, cut)
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


def publish_all(
    context: Context,
    state: BranchState,
    verb: str,
    commits: Sequence[Commit],
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
) -> None:
    """Move a branch from the expected head over new commits to the last of them.

    Either all of them exist afterwards, or none. The state's fence is the one that the verb read at
    its start. Raises RaceLostError, CollectionBegunError, and HookFailedError if a hook of the
    branch refuses the move.
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
    """Return the possible changes of new commits against their first parents.

    Nothing is read for this.
    """
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
    """Return a verb that restarts from nothing when a collection has started."""

    @wraps(verb)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            retry=retry_if_exception_type(CollectionBegunError),
            reraise=True,
        )
        return retrying(verb, *arguments, **options)

    return run
