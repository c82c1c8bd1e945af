"""Fast listings where a store has them."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.ports import ObjectStore, StoredFolder, StoredObject
from sparklake.stores.objects.local.columns import FileColumns
from sparklake.stores.objects.local.store import LocalStore


def scan_level(store: ObjectStore, prefix: str) -> Iterator[StoredFolder | StoredObject | None]:
    """Yield the folders of one level, and an object or None for each other entry."""
    if isinstance(store, LocalStore):
        yield from store.scan_level(prefix)
    else:
        yield from store.scan(prefix, level=True)


def lists_columns(store: ObjectStore) -> bool:
    """Whether `find_columns` returns the files of a store."""
    return isinstance(store, LocalStore)


def find_columns(
    store: ObjectStore, prefix: str, *, level: bool, exact: bool = False
) -> Iterator[FileColumns] | None:
    """Return the files below a prefix in columns; None without columnar listings.

    With `exact`, names that are not UTF-8 are kept as invalid texts.
    """
    if isinstance(store, LocalStore):
        return store.scan_columns(prefix, level=level, exact=exact)
    return None
