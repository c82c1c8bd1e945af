"""Addresses of objects inside the storage namespace."""

from __future__ import annotations

import os
import uuid
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.blocks.entry_columns import EntryColumns
from sparklake.graveler.buffers import Mask, mask_of
from sparklake.layout import DATA_FOLDER
from sparklake.stores.objects import describe_store
from sparklake.stores.objects.addresses import (
    are_local,
    canonical_address,
    canonical_addresses,
    canonical_schemes,
    local_paths,
    shown_addresses,
)
from sparklake.stores.objects.local.provider import find_local_path
from sparklake.stores.objects.namespaces import real_root

_FOLDERS_KEPT = 65536


def new_data_key() -> str:
    """Return a new key for an object, or for a folder of objects."""
    return f"{DATA_FOLDER}{uuid.uuid4().hex}"


class OwnNamespace:
    """A lookup of addresses in a namespace, through symbolic links."""

    def __init__(self, namespace: str) -> None:
        self.uri = namespace
        self._is_local = describe_store(namespace).is_local
        self._root = real_root(namespace)
        self._real_folder = lru_cache(_FOLDERS_KEPT)(_real_folder)

    def has(self, address: str) -> bool:
        return self.find_key(address) is not None

    def find_key(self, address: str) -> str | None:
        if self._is_local:
            path = find_local_path(address)
            place = "" if path is None else self._real_place(path)
        else:
            place = canonical_address(address)
        return place.removeprefix(self._root) if place.startswith(self._root) else None

    def _real_place(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        place = f"{self._real_folder(folder)}{name}"
        # A link inside the namespace is an object of it, wherever the link points.
        is_inside = place.startswith(self._root)
        return place if is_inside or not _is_link(place) else os.path.realpath(place)

    def full_addresses(self, entries: EntryColumns) -> pa.StringArray:
        return self._without_links(full_addresses(self.uri, entries))

    def canonical(self, addresses: pa.StringArray) -> pa.StringArray:
        """Return addresses in a canonical spelling, with links into the namespace resolved."""
        return self._without_links(canonical_addresses(addresses))

    def _without_links(self, addresses: pa.StringArray) -> pa.StringArray:
        if not self._is_local:
            return addresses
        is_file = are_local(addresses)
        elsewhere = pc.and_not(is_file, pc.starts_with(addresses, f"{self.uri}/"))
        if not pc.any(elsewhere).as_py():
            return addresses
        pairs = zip(addresses.to_pylist(), elsewhere.to_pylist(), strict=True)
        return pa.array([self._direct(each) if is_one else each for each, is_one in pairs])

    def _direct(self, address: str) -> str:
        key = self.find_key(address)
        return address if key is None else f"{self.uri}/{key}"

    def mask(self, addresses: pa.StringArray, direct: Mask | None = None) -> Mask:
        """Return the mask of plain addresses in the namespace. `direct` excludes links."""
        if not self._is_local:
            return mask_of(pc.starts_with(canonical_schemes(addresses), self._root))
        local: Mask = mask_of(are_local(addresses)).copy()
        if local.any():
            paths = local_paths(addresses.filter(pa.array(local)))
            parts = pc.split_pattern(paths, "/", max_splits=1, reverse=True)
            folders = pc.list_element(parts, 0).dictionary_encode()
            names = folders.dictionary.to_pylist()
            inside = [self._real_folder(each).startswith(self._root) for each in names]
            own = np.array(inside, bool)[folders.indices.to_numpy()]
            unsure = ~own if direct is None else ~own & ~direct[local]
            others = paths.filter(pa.array(unsure)).to_pylist()
            own[unsure] = [_is_link(each) and self._is_inside(each) for each in others]
            local[local] = own
        return local

    def _is_inside(self, path: str) -> bool:
        return self._real_place(path).startswith(self._root)


def full_addresses(namespace: str, entries: EntryColumns) -> pa.StringArray:
    """Return the addresses of entries as normalised full URIs. Links are not resolved."""
    inside = pc.binary_join_element_wise(namespace, entries.address, "/")
    relative = entries.relative
    if relative.all():
        return inside
    whole = canonical_addresses(shown_addresses(entries.address))
    return pc.if_else(pa.array(relative), inside, whole)


def _real_folder(folder: str) -> str:
    return f"{os.path.realpath(folder or '/').rstrip('/')}/"


def _is_link(path: str) -> bool:
    # Not Path.is_symlink: this runs for every object imported from a disk.
    return os.path.islink(path)  # noqa: PTH114
