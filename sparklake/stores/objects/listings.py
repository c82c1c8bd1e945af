"""Listings in parts, in columns if the store supports them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sparklake.graveler.chunks import chunked
from sparklake.graveler.ports import ObjectStore, StoredFolder, StoredObject
from sparklake.uri import is_utf8

if TYPE_CHECKING:
    from sparklake.stores.objects.local.columns import FileColumns

_PARTS_WANTED = 128
_MAX_LEVELS = 256
_MAX_ENTRIES = 100_000
"""The number of names read from one level. A level with more names is not split."""


@runtime_checkable
class ListsColumns(Protocol):
    """A store with a listing faster than one value per object."""

    def scan_level(self, prefix: str) -> Iterator[StoredFolder | None]:
        """Yield one level: each folder, and None for each other entry."""

    def scan_columns(
        self, prefix: str, *, level: bool = False, exact: bool = False
    ) -> Iterator[FileColumns]:
        """Yield files in columns. `exact` keeps names that are not UTF-8."""


def column_lister(store: ObjectStore) -> ListsColumns | None:
    """Return the store if it lists in columns."""
    return store if isinstance(store, ListsColumns) else None


@dataclass(frozen=True, slots=True)
class ListingPart:
    """Everything below a prefix, or only the objects of its level."""

    prefix: str
    level: bool = False


def split_listing(
    store: ObjectStore, wanted: int = _PARTS_WANTED, start: str = ""
) -> list[ListingPart]:
    """Split the folder `start` into about `wanted` disjoint parts, reading level by level.

    A folder ends in '/'. The order of a listing does not matter, and no object is kept in memory.
    """
    waiting, parts = deque([start]), list[ListingPart]()
    for _ in range(_MAX_LEVELS):
        if not waiting or len(waiting) + len(parts) >= wanted:
            break
        prefix = waiting.popleft()
        level = _read_level(store, prefix)
        if level is None:
            parts.append(ListingPart(prefix))
            continue
        folders, has_objects = level
        waiting.extend(folders)
        if has_objects:
            parts.append(ListingPart(prefix, level=True))
    return [*parts, *map(ListingPart, waiting)]


def _read_level(store: ObjectStore, prefix: str) -> tuple[list[str], bool] | None:
    """Return a level's folders and whether it has objects, or None if it is not split."""
    folders, has_objects, count = [], False, 0
    for count, each in enumerate(scan_level(store, prefix), start=1):
        if count > _MAX_ENTRIES:
            return None
        if isinstance(each, StoredFolder):
            folders.append(each.key)
        else:
            has_objects = True
    return (folders, has_objects) if all(map(is_utf8, folders)) else None


def scan_level(store: ObjectStore, prefix: str) -> Iterator[StoredFolder | StoredObject | None]:
    """Yield one level: each folder, and an object or None for each other entry."""
    if isinstance(store, ListsColumns):
        yield from store.scan_level(prefix)
    else:
        yield from store.scan(prefix, level=True)


def list_chunks(store: ObjectStore, part: ListingPart, size: int) -> Iterator[list[StoredObject]]:
    """Return the objects of a part, at most `size` at a time."""
    entries = store.scan(part.prefix, level=part.level)
    objects = (each for each in entries if isinstance(each, StoredObject))
    return chunked(objects, size)
