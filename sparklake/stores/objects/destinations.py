"""Verified copies: size, and content if its checksum is known."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.stores.objects.digests import contradicts

CHUNK_BYTES = 1 << 20

# Of S3's multipart objects, of Azure, and of Google's composite objects.
_ETAG = re.compile(r"[0-9a-f]{32}-[0-9]+|0x[0-9A-F]+|-[A-Za-z0-9+/=]+")


@dataclass(frozen=True, slots=True)
class ExpectedObject:
    """An object to copy: its location and its expected size and content."""

    path: str
    address: str
    size: int
    checksum: str
    content_type: str

    def check_size(self, size: int) -> None:
        if size != self.size:
            raise self.corrupt(f"has {size} bytes, not {self.size}")

    def check(self, size: int, digest: str, find: Callable[[], StoredObject | None]) -> None:
        """Compare the bytes read with the expected object.

        `find` looks the object up in a bucket. The ETag is compared if it is not an MD5, as for
        encrypted and multipart objects, and in Azure. For any other checksum only the size is
        verified.
        """
        self.check_size(size)
        if digest and contradicts(self.checksum, digest, find):
            raise self.corrupt(f"has the MD5 {digest}, not {self.checksum}")
        if _ETAG.fullmatch(self.checksum):
            stored = find()
            if stored is not None and stored.checksum != self.checksum:
                raise self.corrupt(f"no longer has the ETag {self.checksum}")

    def missing(self) -> MissingFileError:
        return MissingFileError(
            f"{self.path!r} is missing at {self.address}: it was moved or deleted outside the "
            "lake; restore it there"
        )

    def corrupt(self, what: str) -> CorruptFileError:
        return CorruptFileError(
            f"{self.path!r} {what} at {self.address}: it was overwritten outside the lake; "
            "restore the original"
        )


class Destination(Protocol):
    """A folder or prefix for atomic copies. Thread-safe."""

    @property
    def uri(self) -> str:
        """The root, without a trailing '/'."""

    @property
    def has_folders(self) -> bool:
        """Whether a key cannot be both an object and a prefix of others."""

    def unsupported_reason(self, key: str) -> str:
        """Return why a key cannot be stored here, or "" if it can."""

    def copy(self, key: str, expected: ExpectedObject, store: ObjectStore, source: str) -> None:
        """Copy an object of a store, at the key `source`.

        Raises:
            MissingFileError: The source does not exist.
            CorruptFileError: The source is not the expected object.
            InvalidKeyError: The destination cannot hold the key.
        """

    def put(self, key: str, body: bytes) -> None:
        """Write a small object."""

    def remove(self, key: str) -> None:
        """Remove an object and its empty parent folders. A missing object is not an error."""

    def settle(self) -> None:
        """Make all previous writes durable."""

    def tidy(self) -> None:
        """Remove temporary files when no writes are in progress."""


class BucketDestination:
    """What destinations in buckets share: objects are complete once they are written."""

    store: ObjectStore
    has_folders = False

    @property
    def uri(self) -> str:
        return self.store.uri

    def put(self, key: str, body: bytes) -> None:
        self.store.replace(key, body)

    def remove(self, key: str) -> None:
        self.store.delete(key)

    def settle(self) -> None:
        pass

    def tidy(self) -> None:
        pass


class CheckedStream(io.RawIOBase):
    """A stream verified before its end, so that a wrong object is never completed."""

    def __init__(self, stream: BinaryIO, expected: ExpectedObject) -> None:
        super().__init__()
        self._stream = stream
        self._wanted = expected
        self._digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = []
        remaining = self._wanted.size - self._size if size < 0 else size
        while remaining > 0 and (part := self._stream.read(remaining)):
            self._digest.update(part)
            self._size += len(part)
            remaining -= len(part)
            parts.append(part)
        if remaining or self._size >= self._wanted.size:
            extra = len(self._stream.read(1))
            self._wanted.check(self._size + extra, self._digest.hexdigest(), lambda: None)
        return b"".join(parts)
