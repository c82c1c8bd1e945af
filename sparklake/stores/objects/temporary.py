"""Temporary files and folders of running and killed writers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sparklake.errors import StoreError
from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.times import SECOND
from sparklake.namespace.layout import CHECKS_FOLDER, COLLECTIONS_FOLDER, OPEN_CHECKS
from sparklake.stores.objects.local.files import NO_FILE_ERRORS, TEMPORARY, store_errors
from sparklake.stores.objects.local.store import ABANDONED_SECONDS, LocalStore

if TYPE_CHECKING:
    from sparklake.stores.objects.s3.store import S3Store

__all__ = ["ABANDONED_SECONDS", "remove_emptied", "remove_temporary", "temporary_files"]


def temporary_files(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield temporary files or incomplete uploads, by keys of no object, with start times."""
    if isinstance(store, LocalStore):
        for folder in _folders(store):
            yield from _files(store, folder)
    elif store.uri.startswith("s3://"):
        # A store without such listings, or without the permission for them, shows none.
        with suppress(StoreError):
            yield from cast("S3Store", store).uploads()


def remove_temporary(store: ObjectStore, before: int) -> int:
    """Remove temporary files started before a time in unix nanoseconds; return their number."""
    old = [each for each in temporary_files(store) if each.mtime < before]
    for each in old:
        if isinstance(store, LocalStore):
            with store_errors(store.root):
                (store.root / each.key).unlink(missing_ok=True)
        else:
            cast("S3Store", store).abort_upload(each)
    return len(old)


def remove_emptied(store: ObjectStore) -> None:
    """Remove the empty folders of a local store without objects. A no-op for buckets."""
    if isinstance(store, LocalStore):
        for folder, _, _ in os.walk(store.root, topdown=False):
            with suppress(OSError):  # Someone writes there.
                Path(folder).rmdir()


def _folders(store: LocalStore) -> Iterator[Path]:
    """Yield the store's folders of temporary files, and those of its runs."""
    yield store.root / TEMPORARY
    with store_errors(store.root):
        yield from store.root.glob(f"{COLLECTIONS_FOLDER}*/{TEMPORARY}")
        checks = store.root / CHECKS_FOLDER
        for each in checks.glob(f"{OPEN_CHECKS}*"):
            yield from (each / TEMPORARY, checks / each.name / TEMPORARY)


def _files(store: LocalStore, folder: Path) -> Iterator[StoredObject]:
    with store_errors(folder), suppress(*NO_FILE_ERRORS), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(*NO_FILE_ERRORS):
                status = entry.stat(follow_symlinks=False)
                start = entry.name.partition("-")[0]
                # Not by file times: a hard link has the times of its source.
                time = int(start) * SECOND if start.isdigit() else status.st_mtime_ns
                key = f"{folder.relative_to(store.root).as_posix()}/{entry.name}"
                yield StoredObject(key, status.st_size, time)
