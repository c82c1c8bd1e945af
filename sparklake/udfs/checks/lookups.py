"""Lookups of objects outside `data/`: imported ones, and unusual addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparklake.errors import InvalidKeyError, InvalidUriError, SparklakeError
from sparklake.graveler.ports import StoredObject
from sparklake.interrupts import Threads
from sparklake.namespace.lookups import OBJECT_THREADS
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects import describe_store, open_object

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED_FROM = 100
"""The minimum number of objects in a folder for a listing."""


class Problem(NamedTuple):
    """The kind and detail of a failed lookup."""

    kind: FindingKind
    detail: str


Found = int | None | Problem
"""The size of an object, None for a missing one, or a problem."""


@dataclass(slots=True)
class StoredSizes:
    """Mask, sizes and lookup problems of objects, one per row."""

    exists: Any
    size: Any
    problem: Any

    def update(self, rows: Any, other: StoredSizes) -> None:
        self.exists[rows], self.size[rows] = other.exists, other.size
        self.problem[rows] = other.problem


def stored_sizes(rows: pa.Table) -> StoredSizes:
    """Look up the addresses of rows, each address once."""
    addresses = rows.column("address").combine_chunks().dictionary_encode()
    sizes = find_sizes(addresses.dictionary.to_pylist())
    each_once = list(map(sizes.__getitem__, addresses.dictionary.to_pylist()))
    numbers = addresses.indices.to_numpy()
    exists = np.array([isinstance(each, int) for each in each_once], bool)
    size = np.array([each if isinstance(each, int) else 0 for each in each_once], np.int64)
    problem = np.empty(len(each_once), object)
    problem[:] = [each if isinstance(each, Problem) else None for each in each_once]
    return StoredSizes(exists[numbers], size[numbers], problem[numbers])


def find_sizes(addresses: Sequence[str]) -> dict[str, Found]:
    """Return the size at each address, None for a missing object, or a problem."""
    sizes: dict[str, Found] = {}
    for _, group in groupby(sorted(addresses), key=lambda each: each.rpartition("/")[0]):
        siblings = list(group)
        if len(siblings) >= _LISTED_FROM and _is_remote(siblings[0]):
            sizes.update(_listed(siblings))
        else:
            sizes.update(_looked_up(siblings))
    return sizes


def _is_remote(address: str) -> bool:
    try:
        return not describe_store(address).is_local
    except InvalidUriError:
        return False


def _listed(addresses: Sequence[str]) -> Iterator[tuple[str, Found]]:
    """Yield the sizes in one folder, from a listing if possible."""
    try:
        places = [open_object(each) for each in addresses]
        store, key = places[0]
        prefix = key.rpartition("/")[0]
        listing = store.scan(f"{prefix}/" if prefix else "", level=True)
        sizes = {each.key: each.size for each in listing if isinstance(each, StoredObject)}
    except SparklakeError:
        yield from _looked_up(addresses)
        return
    for address, (_, key) in zip(addresses, places, strict=True):
        yield address, sizes.get(key)


def _looked_up(addresses: Sequence[str]) -> Iterator[tuple[str, Found]]:
    with Threads(min(OBJECT_THREADS, len(addresses)), "sparklake-look") as threads:
        yield from zip(addresses, threads.map(_size, addresses), strict=True)


def _size(address: str) -> Found:
    try:
        store, key = open_object(address)
        stored = store.find(key)
    except (InvalidUriError, InvalidKeyError) as error:
        return Problem(FindingKind.ADDRESS_UNUSABLE, str(error))
    except SparklakeError as error:
        return Problem(FindingKind.OBJECT_UNREADABLE, str(error))
    return None if stored is None else stored.size
