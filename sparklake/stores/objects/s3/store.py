"""An object store in a bucket of any S3 endpoint."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from sparklake.errors import StoreError
from sparklake.graveler.ports import (
    Content,
    ContentPart,
    FetchedContent,
    StoredFolder,
    StoredObject,
    Watch,
)
from sparklake.graveler.times import MICROSECOND, SECOND, microsecond_of
from sparklake.interrupts import within_grace
from sparklake.stores.objects.buckets import WHOLE_BYTES, BucketStore, Entry, no_bucket
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.files import open_stream, store_errors, whole_file
from sparklake.stores.objects.s3.client import (
    TRUNCATED,
    BotoCoreError,
    ClientError,
    error_code,
    s3_client,
    s3_errors,
)

_LOG = logging.getLogger("sparklake.buckets")

_T = TypeVar("_T")
_Answer: TypeAlias = "Mapping[str, Any]"
_Write: TypeAlias = "Callable[[Mapping[str, str], BinaryIO, int], None]"

MULTIPART_BYTES = 64 << 20
"""The size above which an object is written in parts."""

# Each thread holds one part in memory.
_PART_BYTES = 16 << 20
_MAX_PARTS = 10_000
_CHUNK_BYTES = 1 << 20

_READ_ATTEMPTS = 3
_UPLOAD = "?uploadId="

_BEYOND_THE_END = {"InvalidRange", "416"}
_PRESENT = {"PreconditionFailed", "412"}
# The object to replace was deleted.
_GONE = "NoSuchKey"
# Another conditional write of the key was in progress: AWS asks to repeat the whole write.
_CONFLICT = {"ConditionalRequestConflict", "OperationAborted", "409"}
_CONFLICT_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

# The suffix of S3 Express bucket names.
_EXPRESS = "--x-s3"


@dataclass(frozen=True, slots=True)
class S3Store(BucketStore):
    """Objects under a prefix of a bucket, with boto3's standard credentials."""

    bucket: str
    prefix: str = ""

    @property
    def bucket_uri(self) -> str:
        return f"s3://{self.bucket}"

    def get(self, key: str) -> bytes:
        return self._read(key, _whole_body)

    def _content(self, key: str) -> Content:
        def content(answer: _Answer) -> Content:
            size = answer.get("ContentLength", 0)
            whole = size <= WHOLE_BYTES
            return _whole_body(answer) if whole else FetchedContent(self, key, size)

        return self._read(key, content)

    def _read(self, key: str, consume: Callable[[_Answer], _T]) -> _T:
        target = self._target(key)
        with s3_errors(self._address(key)):
            return _read(target, consume)

    def get_part(self, key: str, start: int, stop: int) -> ContentPart:
        target = {**self._target(key), "Range": f"bytes={start}-{stop - 1}"}
        with s3_errors(self._address(key)):
            try:
                if start < stop:
                    return _read(target, lambda answer: _part(answer, start, stop))
            except ClientError as error:
                if error_code(error) not in _BEYOND_THE_END:
                    raise
        return ContentPart(b"", self._head(key).size)

    def get_to_file(self, key: str, path: Path) -> None:
        """Stream an object to a local file, through a temporary name next to it."""
        target = self._target(key)
        with store_errors(path), s3_errors(self._address(key)):
            _read(target, lambda answer: _save(answer, path))

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; True after a lost response if it has this content."""
        return self._put(key, BytesIO(body), len(body))

    def _swap(self, key: str, body: bytes) -> bool:
        item = self.find(key)
        if item is None:
            return self.put_if_absent(key, body)
        target = {**self._target(key), "IfMatch": f'"{item.checksum}"'}
        stream, size = BytesIO(body), len(body)
        with s3_errors(self._address(key)):
            try:
                return _wins(
                    lambda: _put_whole(target, stream, size), lambda: self._holds(key, stream, size)
                )
            except ClientError as error:
                if error_code(error) != _GONE:
                    raise
                return False

    def find(self, key: str) -> StoredObject | None:
        target = self._target(key)
        with s3_errors(self._address(key)):
            try:
                head = s3_client().head_object(**target)
            except ClientError as error:
                if error_code(error) != "404":
                    raise
                self._check_bucket(key)
                return None
            item = _stored(key, head["ContentLength"], head)
        return replace(item, is_opaque=self.bucket.endswith(_EXPRESS) or _has_own_key(head))

    def checksum(self, key: str) -> str:
        return self._head(key).checksum

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[Entry]:
        with s3_errors(self._address(prefix)):
            pages = s3_client().get_paginator("list_objects_v2")
            request = {"Bucket": self.bucket, "Prefix": self.root + prefix}
            for page in pages.paginate(**request, **({"Delimiter": "/"} if level else {})):
                for each in page.get("CommonPrefixes", ()):
                    yield StoredFolder(self._entry(each["Prefix"], None))
                for each in page.get("Contents", ()):
                    if key := self._entry(each["Key"], each["Size"]):
                        yield _stored(key, each["Size"], each)

    def delete(self, key: str) -> None:
        target = self._target(key)
        with s3_errors(self._address(key)):
            try:
                s3_client().delete_object(**target)
            except ClientError as error:
                if error_code(error) != "NoSuchKey":
                    raise

    def signed_url(self, key: str, lifetime: timedelta) -> str:
        seconds = int(lifetime.total_seconds())
        with s3_errors(self._address(key)):
            url: str = s3_client().generate_presigned_url(
                "get_object", Params=self._target(key), ExpiresIn=seconds
            )
        return url

    def temporary_files(self) -> Iterator[StoredObject]:
        """Yield the incomplete multipart uploads. Their keys end with their ids."""
        # A store without such listings, or without the permission for them, shows none.
        with suppress(StoreError), s3_errors(self.uri):
            pages = s3_client().get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.root):
                for each in page.get("Uploads", ()):
                    key = f"{each['Key'].removeprefix(self.root)}{_UPLOAD}{each['UploadId']}"
                    yield StoredObject(key, 0, int(each["Initiated"].timestamp() * SECOND))

    def remove_temporary(self, upload: StoredObject) -> None:
        key, _, upload_id = upload.key.rpartition(_UPLOAD)
        place = {"Bucket": self.bucket, "Key": self.root + key}
        with s3_errors(self._address(key)):
            s3_client().abort_multipart_upload(**place, UploadId=upload_id)

    def remove_emptied(self) -> None:
        """Do nothing: a bucket has no folders."""

    def _target(self, key: str) -> dict[str, str]:
        check_key(key)
        return {"Bucket": self.bucket, "Key": self.root + key}

    def _check_bucket(self, key: str) -> None:
        """Raise for a missing bucket: a HEAD of an object does not show it."""
        # A 403 proves nothing: a HEAD of the bucket needs an additional right.
        try:
            s3_client().head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if error_code(error) == "404":
                raise no_bucket(self._address(key)) from error

    def _put_file(self, watch: Watch | None, key: str, path: Path) -> bool:
        with store_errors(path), open_stream(path) as stream:
            return self._put(key, stream, path.stat().st_size, watch)

    def _put(self, key: str, stream: BinaryIO, size: int, watch: Watch | None = None) -> bool:
        target = self._target(key)
        if size <= MULTIPART_BYTES:
            target["IfNoneMatch"] = "*"
            write: _Write = _put_whole
        elif self.find(key) is None:
            write = partial(_put_parts, watch=watch)
        else:
            return False  # multipart uploads are refused only after all parts were sent
        with s3_errors(self._address(key)):
            return _wins(
                lambda: write(target, stream, size), lambda: self._holds(key, stream, size)
            )

    def _holds(self, key: str, stream: BinaryIO, size: int) -> bool:
        """Compare the content with an object of an earlier attempt."""
        stream.seek(0)
        for start in range(0, size or 1, _PART_BYTES):
            part = self.get_part(key, start, start + _PART_BYTES)
            if part.size != size or part.body != stream.read(_PART_BYTES):
                return False
        return True


def _read(target: Mapping[str, str], consume: Callable[[_Answer], _T]) -> _T:
    """Get an object; retry if the response is truncated or damaged."""
    for attempt in range(1, _READ_ATTEMPTS):
        answer = s3_client().get_object(**target)
        with closing(answer["Body"]), suppress(*TRUNCATED):
            return consume(answer)
        _LOG.warning(
            "s3://%s/%s was received damaged or incomplete: reading it again, after attempt %d",
            target["Bucket"],
            target["Key"],
            attempt,
        )
    answer = s3_client().get_object(**target)
    with closing(answer["Body"]):
        return consume(answer)


def _whole_body(answer: _Answer) -> bytes:
    content: bytes = answer["Body"].read()
    return content


def _part(answer: _Answer, start: int, stop: int) -> ContentPart:
    body = _whole_body(answer)
    _, slash, size = answer.get("ContentRange", "").rpartition("/")
    # A store without range requests returns the whole object.
    return ContentPart(body, int(size)) if slash else ContentPart(body[start:stop], len(body))


def _save(answer: _Answer, path: Path) -> None:
    with whole_file(path) as temporary, temporary.open("wb") as file:
        shutil.copyfileobj(answer["Body"], file, _CHUNK_BYTES)


def _stored(key: str, size: int, facts: Mapping[str, Any]) -> StoredObject:
    mtime = microsecond_of(facts["LastModified"]) * MICROSECOND
    return StoredObject(key, size, mtime, facts.get("ETag", "").strip('"'))


def _has_own_key(head: Mapping[str, Any]) -> bool:
    """Return whether an ETag is not an MD5, because of a KMS or customer-provided key."""
    by = head.get("ServerSideEncryption", "")
    return by.startswith("aws:kms") or "SSECustomerAlgorithm" in head


def _wins(write: Callable[[], None], holds: Callable[[], bool]) -> bool:
    """Run a conditional write; return False if the condition is not met.

    After a repeated request, `holds` decides whether its first attempt wrote the object.
    """
    in_doubt = False
    for pause in (*_CONFLICT_PAUSES, None):
        try:
            write()
        except ClientError as error:
            code = error_code(error)
            in_doubt |= error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) > 0
            if code in _PRESENT:
                return in_doubt and holds()
            if code not in _CONFLICT or pause is None:
                raise
            time.sleep(pause)
        else:
            return True
    return False


def _put_whole(target: Mapping[str, str], stream: BinaryIO, size: int) -> None:
    stream.seek(0)
    s3_client().put_object(**target, Body=stream, ContentLength=size)


def _put_parts(
    target: Mapping[str, str], stream: BinaryIO, size: int, *, watch: Watch | None
) -> None:
    client = s3_client()
    checksum = _part_checksum(client)
    upload = {
        **target,
        "UploadId": client.create_multipart_upload(**target, **checksum)["UploadId"],
    }
    try:
        parts: list[dict[str, Any]] = []
        stream.seek(0)
        while chunk := stream.read(max(_PART_BYTES, -(-size // _MAX_PARTS))):
            number = len(parts) + 1
            answer = client.upload_part(**upload, **checksum, PartNumber=number, Body=chunk)
            fields = {name: answer[name] for name in ("ETag", "ChecksumCRC32") if name in answer}
            parts.append({"PartNumber": number, **fields})
            if watch is not None:
                watch(len(chunk))
        client.complete_multipart_upload(
            **upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )
    except BaseException as error:
        # Otherwise the parts stay invisible and cost money.
        abort = partial(client.abort_multipart_upload, **upload)
        if isinstance(error, Exception):
            with suppress(ClientError, BotoCoreError):
                abort()
        else:
            within_grace(abort)
        raise


def _part_checksum(client: Any) -> dict[str, str]:
    """Return the checksum to announce: AWS rejects parts with an unannounced one."""
    calculated = getattr(client.meta.config, "request_checksum_calculation", "")
    return {"ChecksumAlgorithm": "CRC32"} if calculated == "when_supported" else {}
