"""The place of the table of an import's errors."""

from __future__ import annotations

import re
from hashlib import sha256

from sparklake.errors import InvalidInputError, StoreUnreachableError
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import describe_store, open_store
from sparklake.verbs.base.context import Context, OnceRun
from sparklake.verbs.base.namespace import check_apart, check_enclosing

_ERROR_FILE = re.compile(r"part-[0-9]{5,}-[0-9a-f]{32}[.]parquet")


def checked_place(context: Context, errors_to: str) -> str:
    """Return an empty place outside of the namespace for a table of errors."""
    root = check_apart(context.info, errors_to)
    check_enclosing(root)
    if context.once is not None and _has_left(open_store(root), context.once):
        return root
    try:
        is_used = any(True for _ in open_store(root).scan(""))
    except StoreUnreachableError:
        if not describe_store(root).is_local:
            raise
        is_used = False
    if is_used:
        raise InvalidInputError(
            f"{root} is not empty: choose a new location for the table of errors"
        )
    if context.once is not None:
        open_store(root).put_if_absent(_mark_of(context.once), b"")
    return root


def _mark_of(run: OnceRun) -> str:
    """Return the name of the file that marks a table of errors as that of a once key."""
    return f"_once-{sha256(run.key.encode()).hexdigest()[:32]}"


def _has_left(store: ObjectStore, run: OnceRun) -> bool:
    """Delete the errors that a killed run with the same key has left; return whether it did."""
    try:
        if store.find(_mark_of(run)) is None:
            return False
        left = [each.key for each in store.list("") if _ERROR_FILE.fullmatch(each.key)]
    except StoreUnreachableError:
        return False
    for key in left:
        store.delete(key)
    return True
