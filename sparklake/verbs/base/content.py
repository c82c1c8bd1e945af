"""The content of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ports import Content
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import open_object
from sparklake.stores.objects.digests import contradicts, may_be_md5
from sparklake.stores.objects.signing import signed_url

AHEAD_BYTES = 1 << 20


def read_body(info: ObjectInfo, ref: str) -> bytes:
    """Return the bytes of an object, or raise MissingFileError or CorruptFileError."""
    store, key = open_object(info.address)
    with _missing(info, ref):
        part = store.get_part(key, 0, info.size)
    # An object that has grown is not read whole.
    _check_size(info, ref, part.size)
    body = part.body
    if may_be_md5(info.checksum):
        _check_digest(info, ref, hashlib.md5(body, usedforsecurity=False).hexdigest())
    return body


def content_url(info: ObjectInfo, ref: str, lifetime: timedelta) -> str:
    """Return a presigned URL of an object that exists with its size."""
    store, key = open_object(info.address)
    url = signed_url(store, key, lifetime)
    stored = store.find(key)
    with _missing(info, ref):
        if stored is None:
            raise MissingFileError(f"{info.address} does not exist: restore it")
    _check_size(info, ref, stored.size)
    return url


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """The content of an object, read in parts without verification."""

    info: ObjectInfo
    ref: str

    def __len__(self) -> int:
        return self.info.size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self.info.size)
        if start >= stop and self.info.size:
            return b""
        store, key = open_object(self.info.address)
        with _missing(self.info, self.ref):
            read = store.get_part(key, start, stop)
        _check_size(self.info, self.ref, read.size)
        return read.body


class CheckedContent:
    """The content of an object for one reader, verified after a complete read.

    The MD5 covers bytes read in order from the start; a reader that skips bytes is not verified.
    The final read raises CorruptFileError for a wrong MD5, and so do later reads.
    """

    def __init__(self, content: ObjectContent) -> None:
        self._content = content
        self._is_checked = may_be_md5(content.info.checksum)
        self._digest = hashlib.md5(usedforsecurity=False)
        self._hashed = 0

    def __len__(self) -> int:
        return len(self._content)

    def __getitem__(self, part: slice, /) -> bytes:
        read = self._content[part]
        if self._is_checked:
            self._note(part.indices(len(self))[0], read)
        return read

    def _note(self, start: int, read: bytes) -> None:
        if start > self._hashed:
            return
        fresh = memoryview(read)[self._hashed - start :]
        self._digest.update(fresh)
        self._hashed += len(fresh)
        if self._hashed == len(self):
            _check_digest(self._content.info, self._content.ref, self._digest.hexdigest())


class ReadAhead:
    """Content with read-ahead for sequential requests, in large parts."""

    def __init__(self, content: Content, ahead: int = AHEAD_BYTES) -> None:
        self._content = content
        self._ahead = ahead
        self._asked = -1
        self._kept = b""
        self._start = 0

    def __len__(self) -> int:
        return len(self._content)

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(len(self))
        if start >= stop:
            return self._content[part]
        in_order, self._asked = start == self._asked, stop
        at = start - self._start
        buffered = self._kept[at : at + stop - start] if at >= 0 else b""
        if len(buffered) == stop - start:
            return buffered
        begin = start + len(buffered)
        read = self._content[begin : stop + self._ahead if in_order else stop]
        self._kept, self._start = read[stop - begin :], stop
        return buffered + read[: stop - begin]


@contextmanager
def _missing(info: ObjectInfo, ref: str) -> Iterator[None]:
    try:
        yield
    except MissingFileError as error:
        raise MissingFileError(
            f"{info.path!r} at {ref!r} is missing from {info.address}: it was moved or "
            "deleted outside the lake; restore it there"
        ) from error


def _check_size(info: ObjectInfo, ref: str, size: int) -> None:
    if size != info.size:
        raise CorruptFileError(
            f"{info.path!r} at {ref!r} has {size} bytes at {info.address}, not "
            f"{info.size}: it was overwritten outside the lake; restore the original"
        )


def _check_digest(info: ObjectInfo, ref: str, digest: str) -> None:
    store, key = open_object(info.address)
    if contradicts(info.checksum, digest, lambda: store.find(key)):
        raise CorruptFileError(
            f"{info.path!r} at {ref!r} has the MD5 {digest} at {info.address}, not "
            f"{info.checksum}: it was overwritten outside the lake, or damaged on the disk "
            "or in transit. Read it again. If that does not help, restore the original"
        )
