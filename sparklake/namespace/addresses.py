"""Addresses of objects, in records and inside the storage namespace.

Records of local files contain `local://`, everything else uses `file://`. lakeFS's local adapter
reads `local:///path`, and rejects a whole listing with one `file://` address. Records of earlier
versions contain `file://`, so both are read.
"""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidUriError
from sparklake.graveler.blocks.columns import Mask
from sparklake.graveler.blocks.entry_columns import EntryColumns
from sparklake.stores.objects import normalise_object_uri
from sparklake.stores.objects.namespaces import real_root

_FILE, _LOCAL, _S3A = "file://", "local://", "s3a://"

# lakeFS reads only clean absolute paths. Parts that begin with '.' are checked one by one.
_CLEAN_FILE = r"^file://(/[^./\x00][^/\x00]*)+$"


def shown_address(address: str) -> str:
    """Return a record's full address as a URI for all readers."""
    return f"{_FILE}{address[len(_LOCAL) :]}" if address.startswith(f"{_LOCAL}/") else address


def shown_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return the addresses of records, with `file://` for local files."""
    if not pc.any(pc.starts_with(addresses, f"{_LOCAL}/")).as_py():
        return addresses
    return pc.replace_substring_regex(addresses, f"^{_LOCAL}/", f"{_FILE}/")


def stored_address(address: str) -> str:
    """Return a full address in the form of records."""
    if address.startswith(_S3A):
        return f"s3://{address[len(_S3A) :]}"
    if not address.startswith((_FILE, _LOCAL)):
        return address
    return f"{_LOCAL}{normalise_object_uri(address)[len(_FILE) :]}"


def stored_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return addresses in the form of records. Keys in the namespace stay as they are."""
    if pc.any(pc.starts_with(addresses, _S3A)).as_py():
        addresses = pc.replace_substring_regex(addresses, f"^{_S3A}", "s3://")
    files = pc.starts_with(addresses, _FILE)
    if not pc.any(files).as_py():
        return addresses
    odd = pc.and_not(files, pc.match_substring_regex(addresses, _CLEAN_FILE))
    if pc.any(odd).as_py():
        pairs = zip(addresses.to_pylist(), odd.to_pylist(), strict=True)
        clean = [normalise_object_uri(each) if is_odd else each for each, is_odd in pairs]
        addresses = pa.array(clean, pa.string())
    return pc.replace_substring_regex(addresses, f"^{_FILE}/", f"{_LOCAL}/")


_FOLDERS_KEPT = 65536
# Addresses that have only one spelling.
_PLAIN_ADDRESS = r"^(s3://|file://(/[^./][^/]*)+$)"


class OwnNamespace:
    """A lookup of addresses in a namespace, resolved as the store resolves them.

    On a file system, symbolic links of folders and of the file itself are followed.
    """

    def __init__(self, namespace: str) -> None:
        self.uri = namespace
        self._is_local = namespace.startswith(_FILE)
        if self._is_local:
            self._roots: tuple[str, ...] = (real_root(namespace),)
        else:
            inside = f"{namespace.partition('://')[2]}/"
            self._roots = tuple(f"{scheme}://{inside}" for scheme in ("s3", "s3a"))
        self._real_folder = lru_cache(_FOLDERS_KEPT)(_real_folder)

    def has(self, address: str) -> bool:
        return self.find_key(address) is not None

    def find_key(self, address: str) -> str | None:
        """Return the key of a normalised address in the namespace, or None."""
        if not self._is_local:
            root = next((each for each in self._roots if address.startswith(each)), None)
            return None if root is None else address.removeprefix(root)
        if not address.startswith(_FILE):
            return None
        folder, _, name = address.removeprefix(_FILE).rpartition("/")
        place = f"{self._real_folder(folder)}{name}"
        # A link inside the namespace is an object of it, wherever the link points.
        found = place if place.startswith(self._roots) or not _is_link(place) else _real(place)
        return found.removeprefix(self._roots[0]) if found.startswith(self._roots) else None

    def full_addresses(self, entries: EntryColumns) -> pa.StringArray:
        """Return the addresses of entries as `canonical` URIs."""
        return self._without_links(full_addresses(self.uri, entries))

    def canonical(self, addresses: pa.StringArray) -> pa.StringArray:
        """Return addresses in one spelling per object, because any spelling may be staged.

        An address outside that links into the namespace becomes the object's address there.
        """
        return self._without_links(_normalised(addresses))

    def _without_links(self, addresses: pa.StringArray) -> pa.StringArray:
        if not self._is_local:
            return addresses
        is_file = pc.starts_with(addresses, _FILE)
        elsewhere = pc.and_not(is_file, pc.starts_with(addresses, f"{self.uri}/"))
        if not pc.any(elsewhere).as_py():
            return addresses
        pairs = zip(addresses.to_pylist(), elsewhere.to_pylist(), strict=True)
        return pa.array([self._direct(each) if is_one else each for each, is_one in pairs])

    def _direct(self, address: str) -> str:
        key = self.find_key(address)
        return address if key is None else f"{self.uri}/{key}"

    def mask(self, addresses: pa.StringArray, direct: Mask | None = None) -> Mask:
        """Return which plain addresses are in the namespace. `direct` ones are no links."""
        if not self._is_local:
            found = [pc.starts_with(addresses, root) for root in self._roots]
            return _truth(pc.or_(*found))
        local = _truth(pc.starts_with(addresses, _FILE))
        if local.any():
            files = addresses.filter(pa.array(local))
            parts = pc.split_pattern(files, "/", max_splits=1, reverse=True)
            folders = pc.list_element(parts, 0).dictionary_encode()
            names = [each[len(_FILE) :] for each in folders.dictionary.to_pylist()]
            inside = [self._real_folder(each).startswith(self._roots) for each in names]
            own = np.array(inside, bool)[folders.indices.to_numpy()]
            unsure = ~own if direct is None else ~own & ~direct[local]
            others = files.filter(pa.array(unsure)).to_pylist()
            own[unsure] = [_is_link(each[len(_FILE) :]) and self.has(each) for each in others]
            local[local] = own
        return local


def full_addresses(namespace: str, entries: EntryColumns) -> pa.StringArray:
    """Return the addresses of entries as normalised full URIs. Links are not resolved."""
    inside = pc.binary_join_element_wise(namespace, entries.address, "/")
    relative = entries.relative
    if relative.all():
        return inside
    whole = _normalised(shown_addresses(entries.address))
    return pc.if_else(pa.array(relative), inside, whole)


def _normalised(addresses: pa.StringArray) -> pa.StringArray:
    odd = pc.invert(pc.match_substring_regex(addresses, _PLAIN_ADDRESS))
    if not pc.any(odd).as_py():
        return addresses
    pairs = zip(addresses.to_pylist(), odd.to_pylist(), strict=True)
    return pa.array([_normal(each) if is_odd else each for each, is_odd in pairs], pa.string())


def _normal(address: str) -> str:
    try:
        return normalise_object_uri(address)
    except InvalidUriError:
        return address  # Another tool wrote it, for a store that sparklake does not support.


def _real_folder(folder: str) -> str:
    return f"{_real(folder or '/').rstrip('/')}/"


def _real(path: str) -> str:
    return os.path.realpath(path)


def _is_link(path: str) -> bool:
    # Not Path.is_symlink: this runs for every object imported from a disk.
    return os.path.islink(path)  # noqa: PTH114


def _truth(values: pa.BooleanArray) -> Mask:
    truth: Mask = values.fill_null(False).to_numpy(zero_copy_only=False).copy()
    return truth
