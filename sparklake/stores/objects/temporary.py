"""Temporary files that writers have left in a store, or are writing now."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.stores.objects.local import LocalStore
from sparklake.stores.objects.local_files import NO_FILE_ERRORS, TEMPORARY, store_errors

ABANDONED_SECONDS = 24 * 3600
"""The age from which a temporary file is abandoned: no write takes that long."""


def temporary_files(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield the temporary files of a store. Their keys are not keys of objects.

    The times are when they were begun. A bucket has incomplete multipart uploads instead.
    """
    if isinstance(store, LocalStore):
        yield from _local_files(store)


def _local_files(store: LocalStore) -> Iterator[StoredObject]:
    folder = store.root / TEMPORARY
    with store_errors(folder), suppress(*NO_FILE_ERRORS), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(*NO_FILE_ERRORS):
                status = entry.stat(follow_symlinks=False)
                begun = entry.name.partition("-")[0]
                # Not by file times: a hard link has the times of its source.
                seconds = int(begun) if begun.isdigit() else int(status.st_mtime)
                yield StoredObject(
                    f"{TEMPORARY}/{entry.name}", status.st_size, seconds * 1_000_000_000
                )


def remove_temporary(store: ObjectStore) -> int:
    """Remove the temporary files of dead writers; return their number."""
    oldest = (time.time() - ABANDONED_SECONDS) * 1_000_000_000
    old = [each for each in temporary_files(store) if each.mtime < oldest]
    for each in old:
        if isinstance(store, LocalStore):
            (store.root / each.key).unlink(missing_ok=True)
    return len(old)
