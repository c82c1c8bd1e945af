"""Moves of a branch that make no commit: a hard reset, and the undoing of the latest move."""

from __future__ import annotations

from sparklake.errors import NothingToDoError, UnexpectedHeadError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.verbs.context import Context
from sparklake.verbs.fencing import begun_anew
from sparklake.verbs.publish import until_it_moves
from sparklake.verbs.resolve import check_clean, get_branch, get_commit


@begun_anew
def hard_reset(
    context: Context, branch: str, ref: str, expected: str | None, *, force: bool
) -> Commit:
    """Moves a branch to a ref, which is looked up as of the moment of the move.

    With `expected`, raises UnexpectedHeadError when the head is another commit. With `force`, what
    is staged is dropped in the same moment; else it raises DirtyBranchError.
    """
    awaited = None if expected is None else get_commit(context, expected)

    def attempt() -> Commit:
        state = get_branch(context, branch)
        if awaited is not None and state.commit_id != awaited.id:
            raise UnexpectedHeadError(
                f"{branch!r} is at {state.commit_id[:12]}, not at {awaited.id[:12]}: look at what "
                "has been done there, and expect that"
            )
        if not force:
            check_clean(state, "move it, or drop them with it by force")
        target = get_commit(context, ref)
        _move(context, state, "hard-reset", target)
        return target

    return until_it_moves(context, branch, attempt)


def undo(context: Context, branch: str) -> Commit:
    """Moves a branch back to where it was before its latest move; returns that commit.

    Raises NothingToDoError where it has not moved since it was created, DirtyBranchError, and
    RaceLostError when it moves meanwhile: it does not undo what the caller has not seen.
    """
    state = get_branch(context, branch)
    check_clean(state, "undo its latest move")
    latest = next(iter(context.refs.operations.list(1, branch)), None)
    if latest is None or latest.from_commit is None:
        raise NothingToDoError(f"{branch!r} has not moved since it was created: nothing to undo")
    if latest.to_commit != state.commit_id:
        raise UnexpectedHeadError(
            f"{branch!r} has just been moved by {latest.who!r} ({latest.verb}): look at "
            "`sparklake op log`, and undo that if you mean it"
        )
    target = context.graph.commit(latest.from_commit)
    _move(context, state, "undo", target)
    return target


def _move(context: Context, state: BranchState, verb: str, target: Commit) -> None:
    """Moves a branch from where it was seen, and drops what was staged on it."""
    state.guard.check(state.name, Action.RESET)
    sealed = context.refs.staging.seal(state.name).layers if state.layers else ()
    move = BranchMove(
        branch=state.name,
        expected=state.commit_id,
        to=target.id,
        verb=verb,
        who=context.committer,
        applied_layers=tuple(layer.id for layer in sealed),
        fence=state.fence,
    )
    context.refs.branches.move(move)
