"""Copies that are checked: of the right size and, where that is known, of the right content."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ports import StoredObject
from sparklake.stores.objects.digests import contradicts, may_be_md5

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK_BYTES = 1 << 20

_ETAG_OF_PARTS = re.compile(r"[0-9a-f]{32}-[0-9]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object to be copied: where it lies, and what must be found there."""

    path: str
    address: str
    size: int
    checksum: str
    content_type: str

    def check_size(self, size: int) -> None:
        """Raise CorruptFileError for another size."""
        if size != self.size:
            raise self.corrupt(f"has {size} bytes, not {self.size}")

    def check(self, size: int, digest: str, find: Callable[[], StoredObject | None]) -> None:
        """Raise CorruptFileError unless what was read is what was added.

        `find` asks the store where that is a bucket. The ETag settles it where it is no MD5, as of
        encrypted objects and of those in parts. Of any other checksum, only the size is known to
        be right.
        """
        self.check_size(size)
        if digest and contradicts(self.checksum, digest, find):
            raise self.corrupt(f"has the MD5 {digest}, not {self.checksum}")
        if _ETAG_OF_PARTS.fullmatch(self.checksum):
            found = find()
            if found is not None and found.checksum != self.checksum:
                raise self.corrupt(f"has no longer the ETag {self.checksum}")

    @property
    def has_md5(self) -> bool:
        """Whether the checksum may be an MD5 of the bytes."""
        return may_be_md5(self.checksum)

    def missing(self) -> MissingFileError:
        """Return the error that says that there is nothing where the object lay."""
        return MissingFileError(
            f"{self.path!r} is gone from {self.address}: it was moved or deleted outside of the "
            "lake; restore it there"
        )

    def corrupt(self, what: str) -> CorruptFileError:
        """Return the error that says how the object is not what it was."""
        return CorruptFileError(
            f"{self.path!r} {what} at {self.address}: it was overwritten outside of the lake; "
            "restore what was there"
        )


class Destination(Protocol):
    """A folder or prefix that objects are copied to; what is there is replaced, atomically.

    The methods may be called by several threads at once.
    """

    @property
    def uri(self) -> str:
        """The root, without a trailing '/'."""

    @property
    def has_folders(self) -> bool:
        """Whether no object may be where others lie below."""

    def why_unfit(self, key: str) -> str:
        """Return why there can be no object of a key here, and "" where there can."""

    def copy(self, key: str, wanted: Wanted) -> None:
        """Copy an object; raise MissingFileError, CorruptFileError, InvalidKeyError."""

    def put(self, key: str, body: bytes) -> None:
        """Write a small object."""

    def remove(self, key: str) -> None:
        """Remove an object, and folders that hold nothing else; one not there is no error."""

    def settle(self) -> None:
        """Make durable what was written before."""

    def tidy(self) -> None:
        """Remove what is of no use once nothing is being written any more."""


class Checked(io.RawIOBase):
    """Reads the bytes of an object, and raises CorruptFileError before the last if they are wrong.

    So whoever sends them on never finishes with wrong ones.
    """

    def __init__(self, stream: BinaryIO, wanted: Wanted) -> None:
        super().__init__()
        self._stream = stream
        self._wanted = wanted
        self._digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def readable(self) -> bool:
        """Tells that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, and fewer only at the end."""
        parts = []
        left = self._wanted.size - self._size if size < 0 else size
        while left > 0 and (part := self._stream.read(left)):
            self._digest.update(part)
            self._size += len(part)
            left -= len(part)
            parts.append(part)
        if left or self._size >= self._wanted.size:
            extra = len(self._stream.read(1))
            self._wanted.check(self._size + extra, self._digest.hexdigest(), lambda: None)
        return b"".join(parts)
