"""What a test asks of the store: which files were read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from sparklake.stores.objects.local import LocalStore


@contextmanager
def recorded_reads() -> Iterator[list[str]]:
    """Notes the names of the files that local stores are asked for, in order."""
    names: list[str] = []
    get_to_file = LocalStore.get_to_file

    def noting(store: LocalStore, key: str, path: Path) -> None:
        names.append(key.rpartition("/")[2])
        get_to_file(store, key, path)

    with mock.patch.object(LocalStore, "get_to_file", noting):
        yield names
