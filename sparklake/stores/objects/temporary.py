"""Temporary files and folders of running and killed writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from sparklake.graveler.ports import ObjectStore, StoredObject

ABANDONED_SECONDS = 24 * 3600
"""The age at which a later write removes the temporary files of a killed process."""


@runtime_checkable
class TemporaryFiles(Protocol):
    """A store whose writers may leave temporary files, incomplete uploads or empty folders."""

    def temporary_files(self) -> Iterator[StoredObject]:
        """Yield them, by keys of no object, with start times."""

    def remove_temporary(self, file: StoredObject) -> None:
        """Remove one of them."""

    def remove_emptied(self) -> None:
        """Remove the empty folders of a store without objects."""


@runtime_checkable
class LocalFiles(Protocol):
    """A store whose objects are files on this machine, for compiled tasks."""

    def paths(self, keys: Sequence[str]) -> list[str]:
        """Return local paths to read objects from. Objects may be missing."""

    def new_temporary(self) -> str:
        """Return a path prefix for new temporary files. Their folder exists."""


def local_paths(store: ObjectStore, keys: Sequence[str]) -> list[str] | None:
    return store.paths(keys) if isinstance(store, LocalFiles) else None


def new_temporary(store: ObjectStore) -> str | None:
    return store.new_temporary() if isinstance(store, LocalFiles) else None


def temporary_files(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield temporary files or incomplete uploads, by keys of no object, with start times."""
    return store.temporary_files() if isinstance(store, TemporaryFiles) else iter(())


def remove_temporary(store: ObjectStore, before: int) -> int:
    """Remove temporary files started before a time in unix nanoseconds; return their number."""
    if not isinstance(store, TemporaryFiles):
        return 0
    old = [each for each in store.temporary_files() if each.mtime < before]
    for each in old:
        store.remove_temporary(each)
    return len(old)


def remove_emptied(store: ObjectStore) -> None:
    """Remove the empty folders of a local store without objects. A no-op for buckets."""
    if isinstance(store, TemporaryFiles):
        store.remove_emptied()
