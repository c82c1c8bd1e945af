"""Temporary files and folders of running and killed writers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparklake.errors import StoreError
from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.times import SECOND
from sparklake.namespace.layout import CHECKS_FOLDER, COLLECTIONS_FOLDER, OPEN_CHECKS
from sparklake.stores.objects.local.files import NO_FILE_ERRORS, TEMPORARY, store_errors
from sparklake.stores.objects.local.store import ABANDONED_SECONDS, LocalStore

if TYPE_CHECKING:
    from sparklake.stores.objects.s3.store import S3Store

__all__ = ["ABANDONED_SECONDS", "remove_emptied", "remove_temporary", "temporary_files"]

_UPLOAD = "?uploadId="


def temporary_files(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield the temporary files of a store. Their keys are not keys of objects.

    In a bucket they are incomplete multipart uploads. The times are when they were begun.
    """
    if isinstance(store, LocalStore):
        for folder in _folders(store):
            yield from _files(store, folder)
    elif store.uri.startswith("s3://"):
        # A store without such listings, or without the permission for them, shows none.
        with suppress(StoreError):
            yield from _uploads(store)  # type: ignore[arg-type]


def remove_temporary(store: ObjectStore, before: int) -> int:
    """Remove the temporary files begun before a time in unix nanoseconds; return their number."""
    old = [each for each in temporary_files(store) if each.mtime < before]
    for each in old:
        if isinstance(store, LocalStore):
            with store_errors(store.root):
                (store.root / each.key).unlink(missing_ok=True)
        else:
            _abort(store, each)  # type: ignore[arg-type]
    return len(old)


def remove_emptied(store: ObjectStore) -> None:
    """Remove a local store without objects: its empty folders. Buckets have no folders."""
    if isinstance(store, LocalStore):
        for folder, _, _ in os.walk(store.root, topdown=False):
            with suppress(OSError):  # Someone writes there.
                Path(folder).rmdir()


def _folders(store: LocalStore) -> Iterator[Path]:
    """Yield the folders of temporary files: of the store, and of runs that use parts of it."""
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


def _uploads(store: S3Store) -> Iterator[StoredObject]:
    client, errors = _s3()
    with errors(store.uri):
        pages = client.get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=store.bucket, Prefix=store.root):
            for each in page.get("Uploads", ()):
                key = f"{each['Key'].removeprefix(store.root)}{_UPLOAD}{each['UploadId']}"
                start = int(each["Initiated"].timestamp() * SECOND)
                yield StoredObject(key, 0, start)


def _abort(store: S3Store, upload: StoredObject) -> None:
    client, errors = _s3()
    key, _, upload_id = upload.key.rpartition(_UPLOAD)
    with errors(f"{store.uri}/{key}"):
        client.abort_multipart_upload(Bucket=store.bucket, Key=store.root + key, UploadId=upload_id)


def _s3() -> Any:
    # Lazy import: boto3 is optional, and its import takes most of a second.
    from sparklake.stores.objects.s3.client import s3_client, s3_errors

    return s3_client(), s3_errors
