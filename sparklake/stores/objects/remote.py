"""An object store in a bucket or container of any obstore service."""

from __future__ import annotations

import mmap
import os
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial
from hashlib import md5
from pathlib import Path
from random import random
from typing import Any, Protocol, TypeVar

from sparklake.config import BucketTimeouts
from sparklake.errors import (
    CorruptFileError,
    InvalidKeyError,
    MissingFileError,
    SparklakeError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.extras import importing
from sparklake.graveler.ports import (
    Content,
    ContentPart,
    FetchedContent,
    StoredFolder,
    StoredObject,
    Watch,
)
from sparklake.graveler.times import MICROSECOND, microsecond_of
from sparklake.interrupts import Threads, check_interrupted
from sparklake.stores.objects.buckets import WHOLE_BYTES, BucketStore, Entry, no_bucket, no_object
from sparklake.stores.objects.digests import may_be_md5
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.files import open_stream, store_errors, whole_file
from sparklake.stores.objects.waits import WAITS, timeouts

with importing("obstore", "azure", "gcs"):
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        InvalidPathError,
        NotSupportedError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )

_T = TypeVar("_T")

LARGE_BYTES = 256 << 20
"""The size above which an object is written in parts, without a condition."""

_PART_BYTES = 16 << 20
_MAX_PARTS = 10_000
_PARTS_AT_ONCE = 4
_CHUNK_BYTES = 4 << 20
_PAGE = 1000

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""The pauses between attempts, in seconds. Each is shortened at random."""
# More attempts rarely help with an endpoint that does not answer at all.
_SILENT_ATTEMPTS = 3

# The timeout for an answer includes sending the body, here at least as fast as this.
_BYTES_PER_SECOND = 1 << 20

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|ContainerBeingDeleted|ResourceNotFound")
_TAKEN = "BlobAlreadyExists"
_SILENCE = ("kind: Timeout,", "kind: Connect,")
_TRUNCATED = "UnexpectedEof"
# Azurite answers without an error to a range that starts at the end.
_BEYOND = "StartTooLarge"


class Bucket(Hashable, Protocol):
    """A bucket or container of one service: its address, client and listings.

    A frozen value that is pickled into tasks, so it contains no secret.
    """

    @property
    def uri(self) -> str:
        """The canonical URI, without a trailing '/'."""

    @property
    def endpoint(self) -> str:
        """The URL of the server, for messages."""

    @property
    def advice(self) -> str:
        """The remedy for missing or rejected credentials: an imperative for messages."""

    def settings(self) -> Hashable:
        """Return the inputs for endpoint and credentials, such as the environment.

        A client is created for each value, once per process.
        """

    def credentials(self) -> Callable[[], Any]:
        """Return a function that returns credentials for obstore, or raises an error."""

    def connect(self, **options: Any) -> Any:
        """Return obstore's store for the whole bucket, without a prefix.

        `options` are its credential provider, `client_options` and `retry_config`.
        """

    def entries(self, client: Any, prefix: str, *, level: bool) -> Iterator[Entry]:
        """Yield whole keys, and folders with `level`, as in `ObjectStore.scan`.

        `listed_entries` is enough for keys that obstore's paths can express.
        """

    def check_key(self, key: str) -> None:
        """Raise InvalidKeyError for a whole key that the service cannot store."""

    def sign(self, client: Any, key: str, lifetime: timedelta) -> str:
        """Return a presigned URL to GET the object of a whole key."""


@dataclass(frozen=True, slots=True)
class RemoteStore(BucketStore):
    """Objects under a prefix of a bucket. Not for processes forked after its first request."""

    bucket: Bucket
    prefix: str = ""

    @property
    def bucket_uri(self) -> str:
        return self.bucket.uri

    def get(self, key: str) -> bytes:
        return self._call(key, lambda path: _whole(obstore.get(self._client(), path)))

    def _content(self, key: str) -> Content:
        def content(path: str) -> Content:
            answer = obstore.get(self._client(), path)
            size = answer.meta["size"]
            return _whole(answer) if size <= WHOLE_BYTES else FetchedContent(self, key, size)

        return self._call(key, content)

    def get_part(self, key: str, start: int, stop: int) -> ContentPart:
        def part(path: str) -> ContentPart:
            answer = obstore.get(self._client(), path, options={"range": (start, stop)})
            return ContentPart(_whole(answer), answer.meta["size"])

        if start < stop:
            try:
                return self._call(key, part)
            except _BeyondEndError:
                pass
        return ContentPart(b"", self._head(key).size)

    def get_to_file(self, key: str, path: Path) -> None:
        """Stream an object to a local file, through a temporary name next to it."""

        def save(place: str) -> None:
            answer = obstore.get(self._client(), place)
            with store_errors(path), whole_file(path) as temporary, temporary.open("wb") as file:
                for chunk in answer.stream(_CHUNK_BYTES):
                    file.write(chunk)
                _check_length(answer, file.tell())

        self._call(key, save)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; True after a lost response if it has this content."""
        return self._create(key, body)

    def _swap(self, key: str, body: bytes) -> bool:
        try:
            head = self._call(key, lambda path: obstore.head(self._client(), path))
        except MissingFileError:
            return self._create(key, body)
        version = {name: head[name] for name in ("e_tag", "version") if head[name] is not None}
        return self._create(key, body, version)

    def upload(self, key: str, path: Path, content_type: str) -> None:
        """Write a local file, replacing an object."""
        with store_errors(path), open_stream(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGE_BYTES:
                self._put_parts(None, key, path, size, content_type)
            elif size:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as body:
                    self._replace(key, body, content_type)
            else:
                self._replace(key, b"", content_type)

    def _replace(self, key: str, body: bytes | mmap.mmap, content_type: str = "") -> None:
        self._check_new(key)
        client, options = self._client(len(body)), _attributes(content_type)
        self._call(
            key, lambda path: obstore.put(client, path, body, use_multipart=False, **options)
        )

    def find(self, key: str) -> StoredObject | None:
        try:
            head = self._call(key, lambda path: obstore.head(self._client(), path))
        except MissingFileError:
            self._check_bucket(key)
            return None
        return stored(key, head)

    def checksum(self, key: str) -> str:
        """Return the MD5 of an object's bytes, which are read if the ETag is not an MD5."""
        etag = self._head(key).checksum
        if may_be_md5(etag):
            return etag

        def digest(path: str) -> str:
            content, size = md5(usedforsecurity=False), 0
            answer = obstore.get(self._client(), path)
            for chunk in answer.stream(_CHUNK_BYTES):
                content.update(chunk)
                size += len(chunk)
            _check_length(answer, size)
            return content.hexdigest()

        return self._call(key, digest)

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[Entry]:
        with remote_errors(self.bucket, self._address(prefix)):
            entries = self.bucket.entries(self._client(), self.root + prefix, level=level)
            while (entry := in_time(self.bucket, lambda: next(entries, None))) is not None:
                size = entry.size if isinstance(entry, StoredObject) else None
                if key := self._entry(entry.key, size):
                    yield entry if not self.root else replace(entry, key=key)

    def delete(self, key: str) -> None:
        try:
            self._call(key, lambda path: obstore.delete(self._client(), path))
        except MissingFileError:
            return

    def signed_url(self, key: str, lifetime: timedelta) -> str:
        return self._call(key, lambda path: self.bucket.sign(self._client(), path, lifetime))

    def _check_new(self, key: str) -> None:
        check_key(key)
        self.bucket.check_key(self.root + key)

    def _client(self, size: int = 0) -> Any:
        seconds = timeouts()
        # Few different timeouts, because each is a client with connections of its own.
        patience = seconds.read_seconds * (1 << (size // _BYTES_PER_SECOND // 16).bit_length())
        return _client(self.bucket, BucketTimeouts(seconds.connect_seconds, patience))

    def _check_bucket(self, key: str) -> None:
        """Raise for a missing bucket: a HEAD of an object does not show it."""
        next(self.scan(f"{key}/"), None)

    def _put_file(self, watch: Watch | None, key: str, path: Path) -> bool:
        with store_errors(path), open_stream(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGE_BYTES:
                return self._put_large(watch, key, path, size)
            if not size:
                return self._create(key, b"")
            # Mapped, so that the bodies of many threads need no memory. Not closed here, because a
            # request that timed out may still hold it.
            return self._create(key, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _put_large(self, watch: Watch | None, key: str, path: Path, size: int) -> bool:
        # Not atomic: services have no condition for uploads in parts.
        if self.find(key) is not None:
            return False
        self._put_parts(watch, key, path, size)
        return True

    def _put_parts(
        self, watch: Watch | None, key: str, path: Path, size: int, content_type: str = ""
    ) -> None:
        self._check_new(key)
        part = max(_PART_BYTES, -(-size // _MAX_PARTS))

        def parts() -> Iterator[bytes]:
            with open_stream(path) as file:
                while chunk := file.read(part):
                    check_interrupted()
                    yield chunk
                    if watch is not None:
                        watch(len(chunk))

        client = self._client(part * _PARTS_AT_ONCE)
        options: Any = {"chunk_size": part, "max_concurrency": _PARTS_AT_ONCE}
        options |= _attributes(content_type)
        self._call(key, lambda place: obstore.put(client, place, parts(), **options))

    def _create(self, key: str, body: bytes | mmap.mmap, mode: Any = "create") -> bool:
        """Write an object if its version is that of the mode; return whether it was."""
        self._check_new(key)
        client, in_doubt = self._client(len(body)), False

        def create(path: str) -> bool:
            nonlocal in_doubt
            # A server may also reset the connection instead of reading a body that it rejects.
            if in_doubt and mode == "create" and self.find(key) is not None:
                return self._holds(key, body)
            try:
                obstore.put(client, path, body, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError) as error:
                if _status(error) == 409 and _TAKEN not in str(error):
                    raise _ConflictError from error
                return in_doubt and self._holds(key, body)
            except BaseException:
                in_doubt = True
                raise
            return True

        return self._call(key, create)

    def _holds(self, key: str, body: bytes | mmap.mmap) -> bool:
        """Compare the content with an object of an earlier attempt."""
        for start in range(0, len(body) or 1, _PART_BYTES):
            part = self.get_part(key, start, start + _PART_BYTES)
            if part.size != len(body) or part.body != body[start : start + _PART_BYTES]:
                return False
        return True

    def _call(self, key: str, call: Callable[[str], _T]) -> _T:
        """Call obstore for a key; retry after transient failures."""
        check_key(key)
        with remote_errors(self.bucket, self._address(key)):
            return _retried(lambda: in_time(self.bucket, partial(call, self.root + key)))


# --- clients and calls ----------------------------------------------------------------------------

# A forked child has none of the threads that obstore started, so each of its calls would hang.
_process = {"uses": False, "is_orphan": False}


def _forked() -> None:
    _process["is_orphan"] = _process["uses"]


os.register_at_fork(after_in_child=_forked)


def _client(bucket: Bucket, patience: BucketTimeouts) -> Any:
    if _process["is_orphan"]:
        raise StoreError(
            f"{bucket.uri} cannot be used in this process: it was forked after its parent used a "
            "remote store. Start processes with multiprocessing's methods spawn or forkserver."
        )
    _process["uses"] = True
    return _connected(bucket, bucket.settings(), patience)


@lru_cache(maxsize=32)
def _connected(bucket: Bucket, settings: Hashable, patience: BucketTimeouts) -> Any:
    options = {
        "connect_timeout": timedelta(seconds=patience.connect_seconds),
        "read_timeout": timedelta(seconds=patience.read_seconds),
        "timeout": timedelta(days=1),
        "allow_http": bucket.endpoint.startswith("http://"),
    }
    provider = bucket.credentials()
    provider()  # Missing credentials are an error of their own here.
    # The attempts are counted above, because an attempt whose answer was lost matters.
    return bucket.connect(
        credential_provider=provider, client_options=options, retry_config={"max_retries": 0}
    )


class _Attempts:
    def __init__(self) -> None:
        self._number = 0

    def are_over(self, error: Exception) -> bool:
        """Pause after a transient failure; return True after any other, or the last one."""
        silent = any(each in str(error) for each in _SILENCE)
        most = _SILENT_ATTEMPTS - 1 if silent else len(PAUSES)
        if self._number >= min(most, len(PAUSES)) or not _is_transient(error):
            return True
        time.sleep(PAUSES[self._number] * (0.5 + random() / 2))  # noqa: S311
        self._number += 1
        return False


def _retried(call: Callable[[], _T]) -> _T:
    attempts = _Attempts()
    while True:
        try:
            return call()
        except (BaseError, _TruncatedError, _ConflictError) as error:
            if attempts.are_over(error):
                raise


def in_time(bucket: Bucket, call: Callable[[], _T]) -> _T:
    """Run a call of obstore: warn if it waits for long, and let Ctrl-C interrupt it."""
    check_interrupted()
    WAITS.begin(bucket.endpoint)
    try:
        if threading.current_thread() is not threading.main_thread():
            return call()
        # Python's signals wait for the end of a call into obstore.
        with Threads(1, "sparklake-call") as thread:
            return thread.submit(call).result()
    finally:
        WAITS.end()


# --- listings -------------------------------------------------------------------------------------


def listed_entries(
    client: Any,
    prefix: str,
    is_directory: Callable[[Mapping[str, str]], bool] = lambda _: False,
    *,
    level: bool,
) -> Iterator[Entry]:
    """List with obstore, whose paths have no empty, '.' or '..' part and no outer slash.

    A key with such a part is an InvalidKeyError. The marker of a directory looks like an empty
    object, so a lookup decides which empty objects exist; `is_directory` may reject one by its
    attributes. A level is read as a whole.
    """
    folder = prefix.rpartition("/")[0]
    if level or not folder:
        top = _retried(lambda: obstore.list_with_delimiter(client, folder))
        # A folder whose name is empty has the path of its parent.
        if folder in top["common_prefixes"]:
            raise ValueError
    if level:
        pages: Any = [top["objects"]]
        for each in top["common_prefixes"]:
            yield StoredFolder(f"{each}/")
    else:
        pages = _pages(client, folder)
    empty = set[str]()
    for page in pages:
        for each in page:
            path = each["path"]
            if not path.startswith(prefix) or path in empty:
                continue
            if not each["size"]:
                if not _is_empty(client, path, is_directory):
                    continue
                empty.add(path)
            yield stored(path, each)


def _pages(client: Any, folder: str) -> Iterator[Sequence[Any]]:
    last, attempts = "", _Attempts()
    while True:
        # A listing resumes after an object: the path of a marker is not its key.
        tail: list[Any] = []
        try:
            for chunk in obstore.list(client, folder, offset=last or None, chunk_size=_PAGE):
                page = [*tail, *chunk]
                stop = next((at for at in range(len(page), 0, -1) if page[at - 1]["size"]), 0)
                yield page[:stop]
                tail, attempts = page[stop:], _Attempts()
                last = page[stop - 1]["path"] if stop else last
        except BaseError as error:
            if attempts.are_over(error):
                raise
        else:
            yield tail
            return


def _is_empty(client: Any, path: str, is_directory: Callable[[Any], bool]) -> bool:
    try:
        answer = _retried(lambda: obstore.get(client, path, options={"head": True}))
    except FileNotFoundError:
        return False
    return answer.meta["size"] == 0 and not is_directory(answer.attributes)


def _attributes(content_type: str) -> dict[str, Any]:
    return {"attributes": {"Content-Type": content_type}} if content_type else {}


def stored(key: str, facts: Mapping[str, Any]) -> StoredObject:
    """Convert obstore's metadata of an object."""
    mtime = microsecond_of(facts["last_modified"]) * MICROSECOND
    return StoredObject(key, facts["size"], mtime, (facts["e_tag"] or "").strip('"'))


# --- answers and errors ---------------------------------------------------------------------------


class _TruncatedError(Exception):
    """A truncated body."""


class _ConflictError(Exception):
    """Another conditional write of the key was in progress."""


class _BeyondEndError(StoreError):
    """A range beyond the end of an object."""


def _whole(answer: Any) -> bytes:
    body = bytes(answer.bytes())
    _check_length(answer, len(body))
    return body


def _check_length(answer: Any, size: int) -> None:
    start, stop = answer.range
    if size != stop - start:
        raise _TruncatedError


def _status(error: Exception) -> int:
    match = _STATUS.search(str(error))
    return int(match[1]) if match else 0


def _is_transient(error: Exception) -> bool:
    if isinstance(error, _TruncatedError | _ConflictError):
        return True
    status = _status(error)
    if status:
        return status in (408, 429) or (status >= 500 and status != 501)
    return "Http" in str(error) or "kind: " in str(error)


@contextmanager
def remote_errors(bucket: Bucket, address: str) -> Iterator[None]:
    """Convert obstore errors to store errors.

    They keep nothing of the service's text and of the request, whose URL may have a signature.
    """
    try:
        yield
    except SparklakeError:
        raise
    except (BaseError, FileNotFoundError, ValueError, _TruncatedError, _ConflictError) as error:
        raise _converted(error, bucket, address) from None


def _converted(error: Exception, bucket: Bucket, address: str) -> Exception:
    text, status = str(error), _status(error)
    code = _CODE.search(text)
    reason = code[1] if code else str(status or type(error).__name__)
    if _NO_BUCKET.search(text) and status == 404:
        return no_bucket(address)
    if isinstance(error, FileNotFoundError):
        return no_object(address)
    if isinstance(error, ValueError | InvalidPathError):
        return InvalidKeyError(
            f"The key of {address}, or one in it, cannot be used with this store: it has an empty, "
            "'.' or '..' part, or a control character. Rename the object."
        )
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in (401, 403):
        return StorePermissionError(
            f"The store rejects a request for {address} ({reason}): {bucket.advice}."
        )
    if isinstance(error, NotSupportedError) or status == 501:
        return StoreError(
            f"The store of {address} has no conditional put, so two writers could overwrite each "
            "other: use a store with conditional puts."
        )
    if status == 416 or _BEYOND in text:
        return _BeyondEndError(f"The range is beyond the end of {address}.")
    if isinstance(error, _TruncatedError) or _TRUNCATED in text:
        return CorruptFileError(
            f"The body of {address} ends before its announced length at every attempt: it is "
            "damaged in the bucket or in transit. Check proxies between this machine and the "
            "store. If that does not help, restore the object."
        )
    if not status and not isinstance(error, _ConflictError):
        return StoreUnreachableError(
            f"{bucket.endpoint} does not answer for {address}: check the network and the "
            f"endpoint, and {bucket.advice}."
        )
    return StoreError(f"The store failed for {address} ({reason}): try again. This is safe.")
