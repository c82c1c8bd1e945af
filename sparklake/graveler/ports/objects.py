"""What the core asks of an object store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a listing says of one object. `mtime` is in unix nanoseconds.

    `checksum` is the store's ETag without quotes, or "" where the store keeps none. `is_opaque`
    says that it is no MD5 though it may look like one; a listing does not know that.
    """

    key: str
    size: int
    mtime: int
    checksum: str = ""
    is_opaque: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """What the keys of several objects begin with, up to and with a '/'."""

    key: str


class Content(Protocol):
    """The bytes of an object, of which some parts may be read only when they are asked for.

    To ask for a part raises what an ObjectStore raises.
    """

    def __len__(self) -> int:
        """Return how many bytes there are."""

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a part of the bytes."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of an object's bytes; `size` is how many it has in all."""

    body: bytes
    size: int


class ObjectStore(Protocol):
    """Holds immutable objects under one root. Keys are relative to it, with '/' between parts.

    Every method raises StoreUnreachableError, StorePermissionError or StoreError for the store's
    own failures, InvalidKeyError for a key that would leave the root, and MissingFileError where
    something to be read is not there.
    """

    @property
    def uri(self) -> str:
        """The root, without a trailing '/'."""

    @property
    def verifies(self) -> bool:
        """Whether what it returns of a table has been verified against the table's id."""

    def get(self, key: str) -> bytes:
        """Return the bytes of an object."""

    def get_part(self, key: str, start: int, stop: int) -> Part:
        """Return the bytes from `start` up to but without `stop`, and read no others.

        There are fewer where the object ends before.
        """

    def get_many(self, keys: Sequence[str]) -> Iterator[Content]:
        """Yield the contents of objects in the order asked for; reads overlap where that pays.

        What fails is raised when it is that object's turn. An iterator that is closed half way
        begins no more reads.
        """

    def get_to_file(self, key: str, path: Path) -> None:
        """Make a local file of an object, by a hard link where that is possible.

        `path` must not exist. The file must be treated as read-only.
        """

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; return whether this call wrote it.

        Atomic: of several writers exactly one wins, and no reader sees part of an object. Durable
        on return.
        """

    def replace(self, key: str, body: bytes) -> None:
        """Write an object in the place of what is there, which is for what no table is.

        Atomic: a reader sees the one or the other. Durable on return.
        """

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        """Write objects unless they exist, many at a time; all are durable on return.

        Returns the keys that this call wrote.
        """

    def put_files_if_absent(self, files: Mapping[str, Path]) -> Sequence[str]:
        """Write each local file unless its key exists; all are durable on return.

        Returns the keys that this call wrote. A store may link what it is given: the files must
        never change afterwards.
        """

    def find(self, key: str) -> StoredObject | None:
        """Return what is known of an object, or None when there is none."""

    def checksum(self, key: str) -> str:
        """Return what tells the object's content: its ETag, or the MD5 of a file's bytes."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose key begins with a prefix, in no promised order."""

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[StoredObject | Folder]:
        """Yield the objects whose key begins with a prefix that is empty or ends with '/'.

        With `level`, only those without a further '/', and the folders of the others, in no order.
        What no key may be named is among them: names of files that are not UTF-8 have surrogates.
        """

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
