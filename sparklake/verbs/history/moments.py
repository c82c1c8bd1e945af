"""What a branch was at a moment in the past."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sparklake.errors import InvalidInputError, RefNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ports import Operation, RefVerb
from sparklake.graveler.times import SECOND_MICROS, datetime_of, microsecond_of
from sparklake.verbs.context import Context
from sparklake.verbs.history.log import LogOptions, log
from sparklake.verbs.resolve import get_branch

_FIRST_PAGE = 100
_OF_TAGS = (RefVerb.CREATE_TAG.value, RefVerb.DELETE_TAG.value)


def head_at(context: Context, branch: str, moment: datetime) -> Commit:
    """Returns the commit that was the head of a branch at a moment.

    The log of operations has every move to the microsecond. A moment without a fraction of a second
    includes the moves of its whole second, since dates are shown in whole seconds. Where the log
    does not reach back, as in a repository that was restored, it is the latest commit up to then in
    the history of first parents. Commits have whole seconds. Raises RefNotFoundError for a moment
    before the branch began.
    """
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"a moment is a datetime with a time zone, not {moment!r}")
    if moment.utcoffset() is None:
        raise InvalidInputError(f"{moment} has no time zone: give it one, such as UTC")
    state, latest = get_branch(context, branch), _last_microsecond(moment)
    first: Operation | None = None
    for move in _moves(context, branch):
        if move.date * SECOND_MICROS + move.microseconds <= latest:
            if move.to_commit is None:
                raise _absent(branch, moment, first)
            return context.graph.commit(move.to_commit)
        first = move
    if first is not None and first.from_commit is None and not _is_restored(first):
        raise _absent(branch, moment, first)
    start = state.commit_id if first is None else first.from_commit or first.to_commit
    terms = LogOptions(amount=1, until=moment, first_parent=True)
    found = next(iter(log(context, start or state.commit_id, terms)), None)
    if found is None:
        raise _absent(branch, moment, first)
    return found


def _last_microsecond(moment: datetime) -> int:
    last = microsecond_of(moment)
    return last if moment.microsecond else last + SECOND_MICROS - 1


def _moves(context: Context, branch: str) -> Iterator[Operation]:
    """Yields the moves of a branch, the latest first."""
    limit, seen = _FIRST_PAGE, 0
    while True:
        found = context.refs.operations.list(limit, branch)
        yield from (each for each in found[seen:] if each.verb not in _OF_TAGS)
        if len(found) < limit:
            return
        limit, seen = 4 * limit, len(found)


def _is_restored(move: Operation) -> bool:
    return move.verb == RefVerb.RESTORE_REPOSITORY.value


def _absent(branch: str, moment: datetime, began: Operation | None) -> RefNotFoundError:
    since = ""
    if began is not None:
        since = f": it began at {datetime_of(began.date)}"
    return RefNotFoundError(f"there was no branch {branch!r} at {moment}{since}")
