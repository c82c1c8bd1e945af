"""An object store in memory. It behaves as S3 does, but every call is one step of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import md5
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from unittest import mock

from sparklake.errors import MissingFileError
from sparklake.graveler.ports import ContentPart, StoredFolder, StoredObject, StoreTraits, Watch
from sparklake.layout import DATA_FOLDER
from sparklake.stores.objects.key_checks import check_key, check_prefix
from sparklake.stores.objects.local.provider import LOCAL
from sparklake.stores.objects.s3.provider import S3

if TYPE_CHECKING:
    from sparklake.graveler.ports import ObjectStore

_OBJECTS = DATA_FOLDER
PAGE_KEYS = 4
"""The number of keys in a page of a listing. Objects may come and go between two pages."""


@dataclass(frozen=True, slots=True)
class _Body:
    content: bytes
    mtime: int


@dataclass(slots=True)
class Bucket:
    """The objects of a bucket. `clock` gives unix nanoseconds."""

    clock: Callable[[], int]
    bodies: dict[str, _Body] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def copy(self) -> Bucket:
        """Return a bucket of the same objects."""
        return Bucket(self.clock, dict(self.bodies))


@dataclass(frozen=True, slots=True)
class SimulatedStore:
    """Objects under a prefix of a bucket in memory."""

    bucket: Bucket
    name: str
    prefix: str = ""

    @property
    def uri(self) -> str:
        """The root, without a trailing '/'."""
        return f"s3://{self.name}/{self.prefix}" if self.prefix else f"s3://{self.name}"

    @property
    def traits(self) -> StoreTraits:
        """The traits of a bucket."""
        return StoreTraits()

    def get(self, key: str) -> bytes:
        """Return the bytes of an object."""
        body = self.bucket.bodies.get(self._key(key))
        if body is None:
            raise MissingFileError(f"there is no object {self.uri}/{key}")
        return body.content

    def get_part(self, key: str, start: int, stop: int) -> ContentPart:
        """Return the bytes from `start` up to and without `stop`."""
        body = self.get(key)
        return ContentPart(body[start:stop] if start < stop else b"", len(body))

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the bytes of objects, each on demand."""
        for key in keys:
            yield self.get(key)

    def get_to_file(self, key: str, path: Path) -> None:
        """Create a local file of an object."""
        body = self.get(key)
        with path.open("xb") as file:
            file.write(body)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; return whether this call wrote it."""
        name = self._key(key)
        with self.bucket.lock:
            if name in self.bucket.bodies:
                return False
            self.bucket.bodies[name] = _Body(bytes(body), self.bucket.clock())
            return True

    def replace(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one."""
        name = self._key(key)
        with self.bucket.lock:
            self.bucket.bodies[name] = _Body(bytes(body), self.bucket.clock())

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        """Write objects unless they exist; return the written keys."""
        for key in bodies:
            check_key(key)
        return [key for key, body in bodies.items() if self.put_if_absent(key, body)]

    def put_files_if_absent(
        self, files: Mapping[str, Path], watch: Watch | None = None
    ) -> Sequence[str]:
        """Write local files unless their keys exist; return the written keys."""
        return self.put_many_if_absent({key: path.read_bytes() for key, path in files.items()})

    def find(self, key: str) -> StoredObject | None:
        """Return the metadata of an object; None for a missing one."""
        body = self.bucket.bodies.get(self._key(key))
        return None if body is None else _stored(key, body)

    def checksum(self, key: str) -> str:
        """Return the MD5 of an object."""
        return md5(self.get(key), usedforsecurity=False).hexdigest()

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects with a key prefix, page by page."""
        check_prefix(prefix)
        return self._pages(prefix)

    def _pages(self, prefix: str) -> Iterator[StoredObject]:
        root = self._root + prefix
        is_empty = not any(each.startswith(root) for each in list(self.bucket.bodies))
        if is_empty and prefix.startswith(_OBJECTS):
            return  # A collection lists 94 prefixes, most of them empty: these are no steps.
        after = ""
        while page := self.page(prefix, after):
            yield from page
            after = page[-1].key

    def page(self, prefix: str, after: str) -> Sequence[StoredObject]:
        """Return the next objects with a key prefix, after a key."""
        root = self._root
        with self.bucket.lock:
            full_keys = sorted(
                each for each in self.bucket.bodies if each.startswith(root + prefix)
            )
            keys = (each.removeprefix(root) for each in full_keys)
            later = islice((each for each in keys if each > after), PAGE_KEYS)
            return [_stored(each, self.bucket.bodies[root + each]) for each in later]

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[StoredObject | StoredFolder]:
        """Yield the objects below a prefix, or one level of them."""
        folders = set()
        for each in self._pages(prefix):
            name, slash, _ = each.key.removeprefix(prefix).partition("/")
            if not level or not slash:
                yield each
            elif name not in folders:
                folders.add(name)
                yield StoredFolder(f"{prefix}{name}/")

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is not an error."""
        name = self._key(key)
        with self.bucket.lock:
            self.bucket.bodies.pop(name, None)

    def uploads(self) -> Iterator[StoredObject]:
        """Yield the incomplete uploads: none."""
        return iter(())

    @property
    def _root(self) -> str:
        return f"{self.prefix}/" if self.prefix else ""

    def _key(self, key: str) -> str:
        check_key(key)
        return f"{self._root}{key}"


def _stored(key: str, body: _Body) -> StoredObject:
    checksum = md5(body.content, usedforsecurity=False).hexdigest()
    return StoredObject(key, len(body.content), body.mtime, checksum)


@contextmanager
def simulated_buckets(buckets: Mapping[str, Bucket]) -> Iterator[None]:
    """Let `s3://` URIs mean buckets in memory."""

    def open_bucket(root: str) -> ObjectStore:
        name, _, prefix = root.removeprefix("s3://").partition("/")
        return SimulatedStore(buckets[name], name, prefix)

    simulated = (LOCAL, replace(S3, open=open_bucket))
    with mock.patch("sparklake.stores.objects.registry.BUILT_IN", simulated):
        yield
