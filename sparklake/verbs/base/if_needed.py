"""Verbs that are only needed if they would change something."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.errors import ChangesTakenError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_branch


def if_head_needs(
    if_needed: bool, context: Context, branch: str, verb: Callable[[], Commit]
) -> Commit:
    """Return the commit of a verb; if it is not needed and may be left out, return the head."""
    try:
        return verb()
    except (NoChangesError, ChangesTakenError):
        if not if_needed:
            raise
        return context.graph.commit(get_branch(context, branch).commit_id)
