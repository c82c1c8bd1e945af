"""How a strategy gets at the contents of objects, in the task that decides."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sparklake.graveler.entries import DEFAULT_CONTENT_TYPE, Entry
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import open_object, open_store

DATA_FOLDER = "data"
"""Where in a storage namespace the users' objects lie."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """Is an object that was written to decide a conflict; `Objects.write` returns it."""

    entry: Entry


@dataclass(frozen=True)
class Objects:
    """Reads objects by their addresses, and writes new ones into the storage namespace.

    What is written and not decided for, or in a merge that fails, is in no tree: garbage collection
    takes it.
    """

    storage_namespace: str
    only_previews: bool = False

    def read(self, address: str) -> bytes:
        """Returns the bytes of an object, as its entry names it; raises MissingFileError."""
        store, key = open_object(address)
        return store.get(key)

    def write(
        self,
        body: bytes,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
    ) -> NewObject:
        """Writes an object to a fresh place, durable on return; it is a decision.

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
