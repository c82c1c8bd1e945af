"""How a strategy gets at the contents of objects, in the task that decides."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparklake.errors import CorruptFileError
from sparklake.graveler.entries import DEFAULT_CONTENT_TYPE, Entry
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import open_object, open_store
from sparklake.stores.objects.digests import contradicts

DATA_FOLDER = "data"
"""Where in a storage namespace the users' objects lie."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that was written to decide a conflict; `Objects.write` returns it."""

    entry: Entry


@dataclass(frozen=True)
class Objects:
    """Reads objects by their addresses, and writes new ones into the storage namespace.

    What is written and not decided for, or in a merge that fails, is in no tree: garbage collection
    takes it.
    """

    storage_namespace: str
    only_previews: bool = False

    def read(self, place: str | Mapping[str, Any]) -> bytes:
        """Return the bytes of an object: of an address, or of one side of a conflict.

        Of a side they are checked. Raises MissingFileError, and CorruptFileError for bytes that
        are not of the size and the MD5 that the side has.
        """
        if isinstance(place, str):
            store, key = open_object(place)
            return store.get(key)
        body = self.read(place["address"])
        _check(place, body)
        return body

    def write(
        self,
        body: bytes,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
    ) -> NewObject:
        """Write an object to a fresh place, durable on return; it is a decision.

        In a preview nothing is written.
        """
        key = f"{DATA_FOLDER}/{uuid.uuid4().hex}"
        if not self.only_previews:
            self._store.put_if_absent(key, body)
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

    @cached_property
    def _store(self) -> ObjectStore:
        return open_store(self.storage_namespace)


def _check(side: Mapping[str, Any], body: bytes) -> None:
    address, checksum = side["address"], side["checksum"]
    store, key = open_object(address)
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    if len(body) != side["size"] or contradicts(checksum, digest, lambda: store.find(key)):
        raise CorruptFileError(
            f"{address} has {len(body)} bytes of the MD5 {digest}, not {side['size']} of "
            f"{checksum}: it was overwritten outside of the lake, or damaged; "
            "restore what was there"
        )
