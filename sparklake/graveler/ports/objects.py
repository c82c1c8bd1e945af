"""Port of the object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Watch: TypeAlias = Callable[[int], object]  # A function that gets the numbers of written bytes.


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The metadata of one object. `mtime` is in unix nanoseconds.

    `checksum` is the store's ETag without quotes, or "" without an ETag. `is_opaque` means that the
    checksum is not an MD5, even if it looks like one. Listings do not set it.
    """

    key: str
    size: int
    mtime: int
    checksum: str = ""
    is_opaque: bool = False


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """A common prefix of object keys, up to and including a '/'."""

    key: str


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """Properties of a store for its callers.

    Objects of an `is_local` store are files on this machine. Its root may be missing if a disk is
    not mounted, folders may be symbolic links, and lookups are cheap, so nothing is cached.
    """

    is_local: bool = False
    compresses: bool = True  # Whether tree files are compressed.
    verifies: bool = False  # Whether tree files are verified against their ids before the return.


class Content(Protocol):
    """The bytes of an object. Slices may be read lazily.

    Reading a slice raises the same errors as an ObjectStore.
    """

    def __len__(self) -> int:
        """Return the number of bytes."""

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a part of the bytes."""


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A slice of an object's bytes. `size` is the size of the whole object."""

    body: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """The content of an object, fetched again for each slice."""

    store: ObjectStore
    key: str
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self.size)
        return self.store.get_part(self.key, start, stop).body


class ObjectStore(Protocol):
    """An object store of immutable objects under one root.

    Keys are relative to the root, with '/' between parts. Every method raises
    StoreUnreachableError, StorePermissionError or StoreError for the store's own failures,
    InvalidKeyError for a key outside of the root, and MissingFileError for a missing object on
    a read.
    """

    @property
    def uri(self) -> str:
        """The root, without a trailing '/'."""

    @property
    def traits(self) -> StoreTraits:
        """The properties of the store."""

    def get(self, key: str) -> bytes:
        """Return the bytes of an object."""

    def get_part(self, key: str, start: int, stop: int) -> ContentPart:
        """Return the bytes from `start` to `stop`, exclusive, and read no others.

        Returns fewer bytes if the object ends before `stop`.
        """

    def get_many(self, keys: Sequence[str]) -> Iterator[Content]:
        """Yield the contents in the order of keys.

        Reads may overlap. An error is raised at its object's position. Closing the iterator early
        starts no more reads.
        """

    def get_to_file(self, key: str, path: Path) -> None:
        """Write an object to a local file, as a hard link if possible.

        `path` must not exist. Treat the file as read-only.
        """

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; return whether this call wrote it.

        Atomic: exactly one of several writers wins, and no reader sees a partial object. Durable on
        return.
        """

    def replace(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one. Never use it for tree files.

        Atomic: a reader sees the old or the new object. Durable on return. An attempt that times
        out and arrives after a later call must not replace its object.
        """

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        """Write absent objects; return the written keys. All are durable on return."""

    def put_files_if_absent(
        self, files: Mapping[str, Path], watch: Watch | None = None
    ) -> Sequence[str]:
        """Write local files to absent keys; return the written keys.

        All are durable on return. A store may hard-link the files, so they must never change
        afterwards. `watch` receives the size of each uploaded part of a multipart file, from any
        thread.
        """

    def find(self, key: str) -> StoredObject | None:
        """Return the metadata of an object; None for a missing one."""

    def checksum(self, key: str) -> str:
        """Return an object's checksum: its ETag, or the MD5 of a file."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects with a key prefix, in undefined order."""

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[StoredObject | StoredFolder]:
        """Yield the objects under a prefix, in undefined order.

        The prefix is empty or ends with '/'. With `level`, yields only the objects without a
        further '/', and the folders of the others. Includes names that are invalid as keys: file
        names that are not UTF-8 have surrogates.
        """

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is not an error."""
