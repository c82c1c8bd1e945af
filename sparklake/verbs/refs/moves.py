"""Hard reset, undo, the operations log, and the head at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from sparklake.errors import (
    InvalidInputError,
    NothingToDoError,
    RefNotFoundError,
    UnexpectedHeadError,
)
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.ports import BranchMove, BranchState, Operation, RefVerb
from sparklake.graveler.times import SECOND_MICROS, datetime_of, microsecond_of
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import check_clean, check_expected, get_branch, get_commit
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.history.log import LogOptions, log


@restarts()
def hard_reset(
    context: Context, branch: str, ref: str, expected: str | None, *, force: bool
) -> Commit:
    """Move a branch to a ref, resolved at the moment of the move."""
    pinned = None if expected is None else get_commit(context, expected).id

    def attempt() -> Commit:
        state = get_branch(context, branch)
        check_expected(context, branch, state.commit_id, pinned)
        if not force:
            check_clean(state, "move it, or drop them with --force")
        target = get_commit(context, ref)
        _move(context, state, "hard-reset", target)
        return target

    return with_branch_queue(context, branch, attempt)


def undo(context: Context, branch: str) -> Commit:
    """Move a branch back to its previous commit, unless it moved concurrently."""
    state = get_branch(context, branch)
    check_clean(state, "undo its latest move")
    latest = next(iter(context.refs.operations.list(1, branch)), None)
    if latest is None or latest.from_commit is None:
        raise NothingToDoError(f"{branch!r} has not moved since it was created: nothing to undo")
    if latest.to_commit != state.commit_id:
        raise UnexpectedHeadError(
            f"{branch!r} was just moved by {latest.who!r} ({latest.verb}): check `sparklake "
            "op log`, and run undo again if you still want it"
        )
    target = context.graph.commit(latest.from_commit)
    _move(context, state, "undo", target, latest.sequence)
    return target


def _move(
    context: Context, state: BranchState, verb: str, target: Commit, latest: int | None = None
) -> None:
    """Move a branch from its observed commit, and drop its staged changes."""
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
        latest=latest,
        once=context.recorded(target),
        runs=replace(state, layers=sealed).runs,
    )
    context.refs.branches.move(move)


def list_operations(context: Context, limit: int, ref: str | None) -> Sequence[Operation]:
    if limit < 1:
        raise InvalidInputError(f"a log of {limit} operations is invalid: choose 1 or more")
    return context.refs.operations.list(limit, ref)


_FIRST_PAGE = 100
_OF_TAGS = (RefVerb.CREATE_TAG.value, RefVerb.DELETE_TAG.value)


def head_at(context: Context, branch: str, moment: datetime) -> Commit:
    """Return the branch head at a timezone-aware datetime.

    A time in whole seconds includes all moves of that second, because dates are shown in seconds.
    Before the start of the operations log, the latest first-parent commit up to then is used.
    """
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"a moment must be a datetime with a time zone, not {moment!r}")
    if moment.utcoffset() is None:
        raise InvalidInputError(f"{moment} has no time zone: add one, such as UTC")
    state, latest = get_branch(context, branch), _last_microsecond(moment)
    first: Operation | None = None
    for move in _moves(context, branch):
        if move.date * SECOND_MICROS + move.microseconds <= latest:
            if move.to_commit is None:
                raise _absent(branch, moment, first)
            return context.graph.commit(move.to_commit)
        first = move
    if (
        first is not None
        and first.from_commit is None
        and first.verb != RefVerb.RESTORE_REPOSITORY.value
    ):
        raise _absent(branch, moment, first)
    start = state.commit_id if first is None else first.from_commit or first.to_commit
    terms = LogOptions(limit=1, until=moment, first_parent=True)
    commit = next(iter(log(context, start or state.commit_id, terms)), None)
    if commit is None:
        raise _absent(branch, moment, first)
    return commit


def _last_microsecond(moment: datetime) -> int:
    last = microsecond_of(moment)
    return last if moment.microsecond else last + SECOND_MICROS - 1


def _moves(context: Context, branch: str) -> Iterator[Operation]:
    limit, offset = _FIRST_PAGE, 0
    while True:
        page = context.refs.operations.list(limit, branch)
        yield from (each for each in page[offset:] if each.verb not in _OF_TAGS)
        if len(page) < limit:
            return
        limit, offset = 4 * limit, len(page)


def _absent(branch: str, moment: datetime, began: Operation | None) -> RefNotFoundError:
    since = "" if began is None else f": it was created at {datetime_of(began.date)}"
    return RefNotFoundError(f"the branch {branch!r} did not exist at {moment}{since}")
