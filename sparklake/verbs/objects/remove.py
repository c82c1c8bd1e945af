"""Remove existing objects: one, several, or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from sparklake.errors import ObjectNotFoundError
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import object_key
from sparklake.graveler.records import tombstone
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.base.snapshot import open_snapshot
from sparklake.verbs.base.staging import INLINE_ROWS
from sparklake.verbs.objects.stage import delete_object, delete_prefix, deletions, stage_batches


def remove_object(context: Context, branch: str, path: str) -> int:
    """Stage the removal of one object, and return 1; raise ObjectNotFoundError."""
    open_snapshot(context, branch).stat(path)
    delete_object(context, branch, path)
    return 1


def remove_objects(context: Context, branch: str, paths: Sequence[str]) -> int:
    """Stage the removal of all existing objects of `paths` at once. Return their number."""
    open_branch(context, branch, Action.STAGE)
    snapshot = open_snapshot(context, branch)
    there = [path for path in dict.fromkeys(paths) if snapshot.exists(path)]
    if len(there) <= INLINE_ROWS:
        removals = [tombstone(object_key(path)) for path in there]
        context.refs.staging.put(branch, removals, fence=None)
    else:
        remaining = iter(there)
        chunks = iter(lambda: list(islice(remaining, INLINE_ROWS)), [])
        runner = context.runner(0, "rm", branch)
        stage_batches(context, branch, runner, map(deletions, chunks), fence=None)
    return len(there)


def remove_folder(context: Context, branch: str, path: str) -> int:
    """Stage the removal of the objects below a path. Return their number.

    The object at the path itself is also removed, unless the path ends with a slash. Raises
    ObjectNotFoundError if there is no such object.
    """
    is_folder = not path or path.endswith("/")
    removed = delete_prefix(context, branch, path if is_folder else f"{path}/")
    try:
        if not is_folder:
            removed += remove_object(context, branch, path)
    except ObjectNotFoundError:
        if not removed:
            raise
    if not removed:
        raise ObjectNotFoundError(
            f"{branch!r} has no objects below {path!r}; `sparklake ls` shows its objects"
        )
    return removed
