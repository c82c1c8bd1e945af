"""What a test asks of the store: which files were read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from sparklake.stores.objects.local import LocalStore


@contextmanager
def recorded_reads() -> Iterator[list[str]]:
    """Notes the names of the files that local stores are asked for, in order."""
    names: list[str] = []
    get = LocalStore.get

    def noting(store: LocalStore, key: str) -> bytes:
        names.append(key.rpartition("/")[2])
        return get(store, key)

    with mock.patch.object(LocalStore, "get", noting):
        yield names
