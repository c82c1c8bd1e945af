"""What all stores in buckets share: their URIs, parallel reads and writes, and errors."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from sparklake.errors import (
    InvalidUriError,
    MissingFileError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.graveler.ports import (
    Content,
    ObjectStore,
    StoredFolder,
    StoredObject,
    StoreTraits,
    Watch,
)
from sparklake.interrupts import Threads
from sparklake.stores.objects.key_checks import check_key, check_prefix, invalid_uri
from sparklake.stores.objects.prefetch import overlapped

_T = TypeVar("_T")

PUT_THREADS = 16

WHOLE_BYTES = 32 << 20
"""The size above which an object is read in slices. A grown tree file may fill memory."""

# Each failure is another writer's success.
_REPLACEMENTS = 16

Entry = StoredObject | StoredFolder


class BucketStore(ObjectStore):
    """A store of the objects under `prefix`, in a bucket with the URI `bucket_uri`."""

    prefix: str
    traits = StoreTraits()

    @property
    @abstractmethod
    def bucket_uri(self) -> str: ...

    @property
    def uri(self) -> str:
        return f"{self.bucket_uri}/{self.prefix}" if self.prefix else self.bucket_uri

    @property
    def root(self) -> str:
        """The prefix of all keys: empty, or with a trailing '/'."""
        return f"{self.prefix}/" if self.prefix else ""

    def get_many(self, keys: Sequence[str]) -> Iterator[Content]:
        """Yield the contents of objects. Several reads run at a time."""
        return overlapped(self._content, keys)

    @abstractmethod
    def _content(self, key: str) -> Content:
        """Return the bytes of an object, or sliced content above WHOLE_BYTES."""

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        return self._put_all(bodies, self.put_if_absent)

    def put_files_if_absent(
        self, files: Mapping[str, Path], watch: Watch | None = None
    ) -> Sequence[str]:
        return self._put_all(files, partial(self._put_file, watch))

    @abstractmethod
    def _put_file(self, watch: Watch | None, key: str, path: Path) -> bool: ...

    def replace(self, key: str, body: bytes) -> None:
        """Replace the current version: late attempts of earlier calls change nothing."""
        if not any(self._swap(key, body) for _ in range(_REPLACEMENTS)):
            raise StoreError(
                f"{self._address(key)} was not written: it changed at each of {_REPLACEMENTS} "
                "attempts. If no other process writes it, the store ignores ETags (If-Match): use "
                "another one"
            )

    @abstractmethod
    def _swap(self, key: str, body: bytes) -> bool:
        """Look an object up and replace this version; return False if it changed since then."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        check_prefix(prefix)
        return (each for each in self.scan(prefix) if isinstance(each, StoredObject))

    def _address(self, key: str) -> str:
        return f"{self.uri}/{key}"

    def _check_new(self, key: str) -> None:
        check_key(key)

    def _head(self, key: str) -> StoredObject:
        item = self.find(key)
        if item is None:
            raise no_object(self._address(key))
        return item

    def _put_all(self, items: Mapping[str, _T], put: Callable[[str, _T], bool]) -> Sequence[str]:
        """Write items in several threads, after a check of all keys; return the written keys."""
        for key in items:
            self._check_new(key)
        with Threads(min(PUT_THREADS, len(items)) or 1, "sparklake-put") as threads:
            writing = {key: threads.submit(put, key, item) for key, item in items.items()}
            return [key for key, future in writing.items() if future.result()]

    def _entry(self, key: str, size: int | None) -> str:
        """Return the key of a listed object or folder; "" for a folder's empty object.

        Consoles and Hadoop write an empty object for a directory.
        """
        key = key.removeprefix(self.root)
        return "" if key.endswith("/") and size == 0 else key


def environment(*prefixes: str) -> Hashable:
    return frozenset((name, os.environ[name]) for name in os.environ if name.startswith(prefixes))


def split_bucket_uri(
    uri: str, scheme: str, bucket: str, service: str, instead: str
) -> tuple[str, str]:
    """Split a URI into the canonical URI of its bucket, whose name matches `bucket`, and the key.

    Credentials in it are rejected: `service` and `instead` are for the message.
    """
    _, separator, place = uri.partition("://")
    name, _, key = place.partition("/")
    if "@" in name:
        raise InvalidUriError(
            f"{service} URI may not contain credentials: remove them, and use {instead}."
        )
    if not separator or not re.fullmatch(bucket, name):
        raise invalid_uri(uri, f"does not name a bucket: write {scheme}://bucket/prefix")
    return f"{scheme}://{name}", key


def no_object(address: str) -> MissingFileError:
    return MissingFileError(
        f"The object {address} does not exist: it was moved or deleted outside the lake; "
        "restore it from a backup or an older version."
    )


def no_credentials(address: str, error: Exception, advice: str) -> StorePermissionError:
    return StorePermissionError(
        f"No usable credentials were found for {address} ({type(error).__name__}): {advice}."
    )


def no_bucket(address: str) -> StoreUnreachableError:
    return StoreUnreachableError.of_missing(
        f"The bucket of {address} does not exist: create it, or correct the name or the endpoint."
    )
