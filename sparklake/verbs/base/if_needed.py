"""Verbs that are only needed if they would change something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparklake.errors import ChangesTakenError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_branch


@dataclass(slots=True)
class IfNeeded:
    """The permission for one run of a verb to have nothing to do.

    After the verb, `changed` tells whether it changed anything. A run that repeats an earlier one
    with its once key has the answer of the earlier run.
    """

    changed: bool = True


def may_leave_out(if_needed: bool | IfNeeded) -> bool:
    """Return whether a verb may have nothing to do, and note that it has."""
    if isinstance(if_needed, IfNeeded):
        if_needed.changed = False
    return bool(if_needed)


def if_head_needs(
    if_needed: bool | IfNeeded, context: Context, branch: str, verb: Callable[[], Commit]
) -> Commit:
    """Return the commit of a verb; if it is not needed and may be left out, return the head."""
    try:
        return verb()
    except (NoChangesError, ChangesTakenError):
        if not may_leave_out(if_needed):
            raise
        return context.graph.commit(get_branch(context, branch).commit_id)
