"""Ownership markers of nested namespaces, with links currently resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from sparklake.errors import NamespaceInUseError, StorePermissionError
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.stores.objects import find_local_path, local_uri, open_store, split_uri

_FOLDERS_KEPT = 65536


def find_enclosing(uri: str) -> str | None:
    """Return the nearest marked namespace above a root. Unreadable folders count as unmarked."""
    path = find_local_path(uri)
    if path is not None:
        return _find_marked_folder(path)
    return next((each for each in _prefixes_above(uri) if _is_marked(each)), None)


class NamespaceMarks:
    """Cached lookups of marked namespaces above a store's objects; `own_root` counts, too."""

    def __init__(self, store: ObjectStore, *, own_root: bool = False) -> None:
        self._store = store
        self._own_root = own_root
        path = find_local_path(store.uri)
        self._root = None if path is None else os.path.realpath(path or "/")
        self._above: Callable[[str], str | None] = lru_cache(_FOLDERS_KEPT)(self._find)

    def find(self, key: str) -> str | None:
        """Return the nearest marked folder above an object, below the root of the store."""
        folder = key.rpartition("/")[0]
        if self._root is None:
            return self._above(folder)
        root = f"{self._root.rstrip('/')}/"
        real = os.path.realpath(root + folder)
        return self._above(real) if f"{real.rstrip('/')}/".startswith(root) else None

    def check(self, key: str) -> None:
        if (root := self.find(key)) is not None:
            raise nested_error(root)

    def _find(self, folder: str) -> str | None:
        if self._root is not None:
            return self._find_real(folder)
        if not folder and not self._own_root:
            return None
        if self._has_mark(f"{folder}/" if folder else ""):
            return f"{self._store.uri}/{folder}".rstrip("/")
        return self._above(folder.rpartition("/")[0]) if folder else None

    def _has_mark(self, prefix: str) -> bool:
        # Not `find`, which also checks the bucket if there is no object.
        key = f"{prefix}{NAMESPACE_MARKER_KEY}"
        with suppress(StorePermissionError):
            return any(each.key == key for each in islice(self._store.list(key), 1))
        return False

    def _find_real(self, folder: str) -> str | None:
        if folder == self._root and not self._own_root:
            return None
        if _has_mark(folder):
            return local_uri(folder)
        return None if folder == self._root else self._above(str(Path(folder).parent))


def nested_error(root: str) -> NamespaceInUseError:
    return NamespaceInUseError(
        f"nothing was deleted: {root} is inside the folder to delete, and marked as the storage "
        f"namespace of another repository. Move it elsewhere. Delete its {NAMESPACE_MARKER_KEY} "
        "only if nothing in it is needed any more"
    )


def _find_marked_folder(path: str) -> str | None:
    above = (*Path(os.path.realpath(path)).parents, *Path(path).parents)
    return next((local_uri(str(each)) for each in above if _has_mark(str(each))), None)


def _has_mark(folder: str) -> bool:
    # Not Path.is_file, which raises for unreadable folders.
    return os.path.isfile(f"{folder.rstrip('/')}/{NAMESPACE_MARKER_KEY}")  # noqa: PTH113


def _prefixes_above(uri: str) -> Iterator[str]:
    bucket, prefix = split_uri(uri)
    while prefix:
        prefix = prefix.rpartition("/")[0]
        yield f"{bucket}/{prefix}" if prefix else bucket


def _is_marked(root: str) -> bool:
    # Credentials may be valid for the namespace alone.
    with suppress(StorePermissionError):
        return open_store(root).find(NAMESPACE_MARKER_KEY) is not None
    return False
