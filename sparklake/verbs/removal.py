"""Remove what is there: an object, or a folder."""

from __future__ import annotations

from sparklake.errors import ObjectNotFoundError
from sparklake.verbs.context import Context
from sparklake.verbs.snapshot import open_snapshot
from sparklake.verbs.stage import delete_object, delete_prefix


def remove_object(context: Context, branch: str, path: str) -> int:
    """Stages the removal of one object, and returns 1; raises ObjectNotFoundError."""
    open_snapshot(context, branch).stat(path)
    delete_object(context, branch, path)
    return 1


def remove_folder(context: Context, branch: str, path: str) -> int:
    """Stages the removal of what is below a path, and at it unless it ends with a slash.

    Returns how many objects that is; raises ObjectNotFoundError when there is none.
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
            f"{branch!r} has nothing below {path!r}; `sparklake ls` shows what it has"
        )
    return removed
