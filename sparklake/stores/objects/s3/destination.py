"""Copies to a bucket, server-side if the source is also in a bucket."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from boto3.s3.transfer import TransferConfig

from sparklake._scratch import scratch_folder
from sparklake.errors import InvalidKeyError
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects.destinations import (
    CHUNK_BYTES,
    BucketDestination,
    CheckedStream,
    ExpectedObject,
)
from sparklake.stores.objects.digests import may_be_md5
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.destination import copy_verified
from sparklake.stores.objects.local.files import NO_FILE_ERRORS, open_stream, store_errors
from sparklake.stores.objects.local.store import LocalStore
from sparklake.stores.objects.s3.client import s3_client, s3_errors
from sparklake.stores.objects.s3.store import S3Store

_MAX_KEY_BYTES = 1024
_PART_BYTES = 16 << 20
_MAX_PARTS = 10_000

COPY_BYTES = 5 << 30
"""The size above which the server copies in parts: S3 rejects larger copies."""
_COPIED_PART_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class S3Destination(BucketDestination):
    """A prefix of a bucket. Objects of the same endpoint are copied by the server."""

    store: S3Store

    def unsupported_reason(self, key: str) -> str:
        try:
            check_key(key)
        except InvalidKeyError:
            return "has a part '.' or '..'"
        if len((self.store.root + key).encode()) > _MAX_KEY_BYTES:
            return f"makes a key of more than {_MAX_KEY_BYTES} bytes"
        return ""

    def copy(self, key: str, expected: ExpectedObject, store: ObjectStore, source: str) -> None:
        """Copy an object server-side, upload a local file, or download and upload others."""
        if isinstance(store, LocalStore):
            self._send(key, store.root / source, expected)
        elif isinstance(store, S3Store):
            self._copy(key, store, source, expected)
        else:
            with scratch_folder() as folder:
                copy_verified(folder / "object", expected, store, source)
                self._send(key, folder / "object", expected)

    def _send(self, key: str, path: Path, expected: ExpectedObject) -> None:
        part = max(_PART_BYTES, -(-expected.size // _MAX_PARTS))
        config = TransferConfig(part, multipart_chunksize=part, use_threads=False)
        kind = {"ContentType": expected.content_type} if expected.content_type else {}
        target = (self.store.bucket, self.store.root + key, kind)
        with s3_errors(f"{self.uri}/{key}"), _opened(path, expected) as file:
            s3_client().upload_fileobj(CheckedStream(file, expected), *target, Config=config)

    def _copy(self, key: str, store: S3Store, source: str, expected: ExpectedObject) -> None:
        stored = store.find(source)
        if stored is None:
            raise expected.missing()
        expected.check_size(stored.size)
        if stored.checksum != expected.checksum:
            is_md5 = may_be_md5(expected.checksum)
            digest = _md5(store.bucket, source, stored.checksum) if is_md5 else ""
            expected.check(stored.size, digest, lambda: stored)
        config = TransferConfig(
            COPY_BYTES, multipart_chunksize=_COPIED_PART_BYTES, use_threads=False
        )
        # The condition ensures that the copied object is the verified one.
        same = {"CopySourceIfMatch": f'"{stored.checksum}"'}
        origin = {"Bucket": store.bucket, "Key": source}
        with s3_errors(f"{self.uri}/{key}"):
            s3_client().copy(origin, self.store.bucket, self.store.root + key, same, Config=config)


def _opened(path: Path, expected: ExpectedObject) -> BinaryIO:
    with store_errors(path):
        try:
            return open_stream(path)
        except NO_FILE_ERRORS as error:
            raise expected.missing() from error


def _md5(bucket: str, key: str, etag: str) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with s3_errors(f"s3://{bucket}/{key}"):
        answer: Any = s3_client().get_object(Bucket=bucket, Key=key, IfMatch=f'"{etag}"')
        with closing(answer["Body"]) as body:
            for chunk in body.iter_chunks(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
