"""Branches that are not for ever: when they expire, and the pruning of those that have."""

from __future__ import annotations

from datetime import timedelta

from sparklake.errors import InvalidInputError, ProtectedError, RaceLostError, RefNotFoundError
from sparklake.graveler.ports import BranchState, RefVerb
from sparklake.verbs.context import Context
from sparklake.verbs.hooks import guarded_name

_LONGEST = timedelta(days=36_500)


def checked_lifetime(lifetime: timedelta | None) -> timedelta | None:
    """Returns how long a branch is to live, None for ever; raises InvalidInputError."""
    if lifetime is not None and not timedelta() < lifetime <= _LONGEST:
        raise InvalidInputError(f"a branch cannot expire in {lifetime}: give it up to 36,500 days")
    return lifetime


def set_expiry(context: Context, branch: str, lifetime: timedelta | None) -> BranchState:
    """Lets a branch expire that long from now, or never.

    Raises ProtectedError for the default branch, RefNotFoundError.
    """
    if lifetime is not None and branch == context.info.default_branch:
        raise ProtectedError(f"{branch!r} is the default branch: it never expires")
    return context.refs.branches.set_lifetime(branch, checked_lifetime(lifetime))


def prune_branches(context: Context, *, dry_run: bool) -> list[BranchState]:
    """Deletes the branches that are past their expiry, and what is staged on them; returns them.

    Neither the default branch nor a protected one is ever among them. One that is given more time,
    protected or deleted meanwhile is left alone.
    """
    due = [each for each in context.refs.branches.list() if _is_due(context, each)]
    return due if dry_run else [each for each in due if _prune(context, each)]


def _is_due(context: Context, branch: BranchState) -> bool:
    return branch.may_be_pruned and branch.name != context.info.default_branch


def _prune(context: Context, branch: BranchState) -> bool:
    try:
        with guarded_name(context, RefVerb.DELETE_BRANCH, branch.name):
            context.refs.branches.delete(branch.name, context.committer, if_expired=True)
    except (RaceLostError, RefNotFoundError, ProtectedError):
        return False
    return True
