"""Tells which addresses lie in the repository's own storage namespace."""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.columns import Mask

_FILE = "file://"
_FOLDERS_KEPT = 65536


class OwnNamespace:
    """Looks for addresses in a namespace, as the store would find them.

    On a file system that is where symbolic links of folders lead.
    """

    def __init__(self, namespace: str) -> None:
        self._is_local = namespace.startswith(_FILE)
        if self._is_local:
            self._roots: tuple[str, ...] = (real_root(namespace),)
        else:
            inside = f"{namespace.partition('://')[2]}/"
            self._roots = tuple(f"{scheme}://{inside}" for scheme in ("s3", "s3a"))
        self._has_folder = lru_cache(_FOLDERS_KEPT)(self._holds)

    def has(self, address: str) -> bool:
        """Tells whether the namespace has an address that has been normalised."""
        if not self._is_local:
            return address.startswith(self._roots)
        return address.startswith(_FILE) and self._has_folder(_folder(address))

    def mask(self, addresses: pa.StringArray) -> Mask:
        """Tells the same of a column of plain addresses."""
        if not self._is_local:
            found = [pc.starts_with(addresses, root) for root in self._roots]
            return _truth(pc.or_(*found))
        local = _truth(pc.starts_with(addresses, _FILE))
        if local.any():
            parts = pc.split_pattern(
                addresses.filter(pa.array(local)), "/", max_splits=1, reverse=True
            )
            folders = pc.list_element(parts, 0).dictionary_encode()
            own = np.array(
                [self._has_folder(each[len(_FILE) :]) for each in folders.dictionary.to_pylist()],
                bool,
            )
            local[local] = own[folders.indices.to_numpy()]
        return local

    def _holds(self, folder: str) -> bool:
        return f"{os.path.realpath(folder or '/').rstrip('/')}/".startswith(self._roots)


def real_root(uri: str) -> str:
    """Returns where a store's root really is, with a '/' at its end."""
    if not uri.startswith(_FILE):
        return f"{uri}/"
    return os.path.realpath(uri.removeprefix(_FILE)).rstrip("/") + "/"


def _folder(address: str) -> str:
    return address.removeprefix(_FILE).rpartition("/")[0]


def _truth(values: pa.BooleanArray) -> Mask:
    truth: Mask = values.fill_null(False).to_numpy(zero_copy_only=False).copy()
    return truth
