"""The commits by which a purge takes its paths off the heads of branches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sparklake.graveler.guards import Action
from sparklake.udfs.purges import Patterns
from sparklake.verbs.commit import commit
from sparklake.verbs.context import Context
from sparklake.verbs.read import list_objects
from sparklake.verbs.resolve import check_clean
from sparklake.verbs.signing import sign
from sparklake.verbs.stage import deletions, stage_batches

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 8192


def commit_removals(context: Context, patterns: Patterns, message: str) -> None:
    """Commits the removal of paths on each branch that has some.

    Raises ProtectedError and DirtyBranchError before the first commit.
    """
    signature = sign(context, message or "Remove what is purged", None, None)
    states = [each for each in context.refs.branches.list() if _first(context, each.name, patterns)]
    for each in states:
        each.guard.check(each.name, Action.STAGE, Action.COMMIT)
        check_clean(each, "purge")
    for each in states:
        runner = context.runner(0, "purge", each.name)
        stage_batches(
            context, each.name, runner, _removals(context, each.name, patterns), fence=None
        )
        commit(context, each.name, signature)


def _first(context: Context, branch: str, patterns: Patterns) -> str | None:
    return next(_paths(context, branch, patterns), None)


def _paths(context: Context, branch: str, patterns: Patterns) -> Iterator[str]:
    return (each.path for each in list_objects(context, branch, "") if each.path in patterns)


def _removals(context: Context, branch: str, patterns: Patterns) -> Iterator[pa.RecordBatch]:
    paths = _paths(context, branch, patterns)
    while chunk := list(islice(paths, _BATCH_ROWS)):
        yield deletions(chunk)
