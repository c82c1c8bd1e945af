"""Access to objects for strategies."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparklake.errors import CorruptFileError
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.entries import Entry
from sparklake.graveler.ports import ContentPart, ObjectStore
from sparklake.namespace.addresses import new_data_key
from sparklake.stores.objects import open_object, open_store
from sparklake.stores.objects.digests import contradicts


@dataclass(frozen=True, slots=True)
class NewObject:
    """A new object as a decision, returned by `Objects.write`."""

    entry: Entry


@dataclass(frozen=True)
class Objects:
    """A reader of objects, and a writer of new ones for decisions.

    Garbage collection deletes written objects not used in a decision, and those of a failed merge.
    """

    storage_namespace: str
    only_previews: bool = False

    def read(self, place: str | Mapping[str, Any]) -> bytes:
        """Return the bytes at an address, or those of a conflict's side.

        The bytes of a side are verified.

        Raises:
            MissingFileError: The object does not exist.
            CorruptFileError: The bytes do not have the size and MD5 of the side.
        """
        if isinstance(place, str):
            store, key = open_object(place)
            return store.get(key)
        store, key = open_object(place["address"])
        # An object that has grown is not read whole.
        part = store.get_part(key, 0, place["size"])
        _check(place, part)
        return part.body

    def write(
        self,
        body: bytes,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
    ) -> NewObject:
        """Write an object to a new key, durably, except in a preview; return the decision."""
        key = new_data_key()
        if not self.only_previews:
            self._store.put_if_absent(key, body)
        return object_at(key, body, content_type, metadata)

    @cached_property
    def _store(self) -> ObjectStore:
        return open_store(self.storage_namespace)


def object_at(
    key: str,
    body: bytes,
    content_type: str = DEFAULT_CONTENT_TYPE,
    metadata: Mapping[str, str] | None = None,
) -> NewObject:
    """Return the decision for an object that was written to a key."""
    checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return NewObject(
        Entry(
            address=key,
            size=len(body),
            checksum=checksum,
            mtime=time.time_ns(),
            metadata=dict(metadata or {}),
            content_type=content_type or DEFAULT_CONTENT_TYPE,
        )
    )


def _check(side: Mapping[str, Any], part: ContentPart) -> None:
    address, checksum = side["address"], side["checksum"]
    store, key = open_object(address)
    digest = hashlib.md5(part.body, usedforsecurity=False).hexdigest()
    if part.size != side["size"] or contradicts(checksum, digest, lambda: store.find(key)):
        raise CorruptFileError(
            f"{address} has {part.size} bytes, not {side['size']} with the checksum {checksum}, or "
            f"the MD5 {digest}: it was overwritten outside the lake, or damaged; restore the "
            "original"
        )
