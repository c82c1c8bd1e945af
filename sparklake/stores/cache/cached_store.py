"""An object store with cached tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from sparklake.graveler import ports
from sparklake.graveler.sstable.range_files import find_table_id
from sparklake.stores.cache.counts import TALLY, CacheCounts
from sparklake.stores.cache.disk import DiskCache
from sparklake.stores.objects.local.files import store_errors, whole_file
from sparklake.stores.objects.registry import provider_of

Verify = Callable[[str, ports.Content], None]
"""A function that raises CorruptFileError unless bytes are the table of an id."""


class CachedStore:
    """A store with a disk cache of verified tree files. A hit sends no request to the store."""

    def __init__(
        self, inner: ports.ObjectStore, cache: DiskCache, verify: Verify, instance: str = ""
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._verify = verify
        self._name = _name(inner.uri, instance)

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def traits(self) -> ports.StoreTraits:
        """The properties of the store. Tree files are verified when they are cached."""
        return replace(self._inner.traits, verifies=True)

    def get(self, key: str) -> bytes:
        table_id = find_table_id(key)
        if table_id is None:
            return self._inner.get(key)
        content = self._find(table_id)
        return self._fetch(key, table_id) if content is None else content

    def get_part(self, key: str, start: int, stop: int) -> ports.ContentPart:
        if find_table_id(key) is None:
            return self._inner.get_part(key, start, stop)
        content = self.get(key)
        return ports.ContentPart(content[start:stop], len(content))

    def get_many(self, keys: Sequence[str]) -> Iterator[ports.Content]:
        absent = [key for key in keys if not self._has(key)]
        fetched, remaining = self._inner.get_many(absent), iter(absent)
        awaited = next(remaining, None)
        for key in keys:
            if key != awaited:
                yield self.get(key)  # It may have been deleted since.
                continue
            awaited = next(remaining, None)
            content, table_id = next(fetched), find_table_id(key)
            yield content if table_id is None else self._enter(table_id, content)

    def get_to_file(self, key: str, path: Path) -> None:
        if find_table_id(key) is None:
            self._inner.get_to_file(key, path)
            return
        with store_errors(path), whole_file(path) as temporary:
            temporary.write_bytes(self.get(key))

    def put_if_absent(self, key: str, body: bytes) -> bool:
        wrote = self._inner.put_if_absent(key, body)
        if wrote:
            self._keep(key, body)
        return wrote

    def replace(self, key: str, body: bytes) -> None:
        self._inner.replace(key, body)

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        new_keys = self._inner.put_many_if_absent(bodies)
        for key in new_keys:
            self._keep(key, bodies[key])
        return new_keys

    def put_files_if_absent(
        self, files: Mapping[str, Path], watch: ports.Watch | None = None
    ) -> Sequence[str]:
        return self._inner.put_files_if_absent(files, watch)

    def find(self, key: str) -> ports.StoredObject | None:
        return self._inner.find(key)

    def checksum(self, key: str) -> str:
        return self._inner.checksum(key)

    def list(self, prefix: str = "") -> Iterator[ports.StoredObject]:
        return self._inner.list(prefix)

    def scan(
        self, prefix: str, *, level: bool = False
    ) -> Iterator[ports.StoredObject | ports.StoredFolder]:
        return self._inner.scan(prefix, level=level)

    def delete(self, key: str) -> None:
        self._inner.delete(key)
        table_id = find_table_id(key)
        if table_id is not None:
            self._cache.drop(self._name, table_id)

    def _has(self, key: str) -> bool:
        table_id = find_table_id(key)
        return table_id is not None and self._cache.has(self._name, table_id)

    def _find(self, table_id: str) -> bytes | None:
        content = self._cache.find(self._name, table_id)
        if content is not None:
            TALLY.add(CacheCounts(hits=1, hit_bytes=len(content)))
        return content

    def _fetch(self, key: str, table_id: str) -> bytes:
        return self._enter(table_id, next(iter(self._inner.get_many([key]))))

    def _enter(self, table_id: str, file: ports.Content) -> bytes:
        TALLY.add(CacheCounts(misses=1, miss_bytes=len(file)))
        # A grown file is not read whole.
        self._verify(table_id, file)
        content = file[:]
        self._cache.keep(self._name, table_id, content)
        return content

    def _keep(self, key: str, content: bytes) -> None:
        """Cache a tree file written by this call: an existing one may have different addresses."""
        table_id = find_table_id(key)
        if table_id is not None:
            self._cache.keep(self._name, table_id, content)


def _name(uri: str, instance: str) -> str:
    """Return a store's name in the cache: endpoints and instances may share a location."""
    variables = provider_of(uri).endpoint_variables
    endpoint = " ".join(filter(None, map(os.environ.get, variables)))
    return sha256(f"{endpoint} {uri} {instance}".encode()).hexdigest()[:16]
