"""Verification of existing ranges before their reuse.

A range id does not depend on addresses, so an existing range of equal records may reference
different objects of equal content, which may be deleted. Its file never changes. A task therefore
reads each existing range and compares the addresses:

- An object below `data/` belongs to the lake and is used if it exists. After its deletion the range
  is dead: nothing is restored at its address, because a delete request may still be in flight. Our
  records become the next generation of the range.
- Any other object may be deleted by its owner. It is used only if a version references it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from sparklake.errors import (
    AddressConflictError,
    CollectionRunningError,
    CollectionStartedError,
    CorruptFileError,
    PurgeRunningError,
    SparklakeError,
)
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.buffers import mask_of
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import (
    read_meta_range,
    read_range_file,
    read_ranges,
    tree_file,
)
from sparklake.interrupts import Threads
from sparklake.layout import DATA_FOLDER
from sparklake.namespace.addresses import full_addresses
from sparklake.namespace.lookups import OBJECT_THREADS, find_missing
from sparklake.namespace.markers import is_sweep_open, open_purges
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_object
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks


@dataclass(frozen=True, slots=True)
class _AddressConflict:
    """The full URIs of an object in our range and in the existing one."""

    key: bytes
    ours: str
    theirs: str


def find_dead(
    store: ObjectStore, files: Mapping[RangeId, bytes], versions: Sequence[MetaRangeId] = ()
) -> list[RangeId]:
    """Verify that existing ranges can be reused; return those with deleted objects.

    `versions` are the trees of kept commits: an owner must keep their objects at the same paths.
    """
    dead = []
    for range_id, file in files.items():
        existing = tree_file(store, range_id)
        if len(existing) != len(file) or existing[:] != file:
            ours, theirs = (read_range_file(each, range_id) for each in (file, existing))
            if _is_dead(store, _conflicts(store, ours, theirs), versions):
                dead.append(range_id)
    return dead


def check_objects_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Verify the lake's objects in ranges, given as tasks, at a later fence. Yields nothing."""
    store = workspace.open_store()
    for ranges in decode_tasks(batches, tuple[RangeInfo, ...]):
        for block in read_ranges(store, ranges):
            _check_present(store, block)
    yield from ()


def _check_present(store: ObjectStore, block: Block) -> None:
    root = f"{store.uri}/"
    entries = decode_entries(block.take(np.flatnonzero(~block.tombstones)))
    addresses = [each.removeprefix(root) for each in full_addresses(store.uri, entries).to_pylist()]
    keys = [each for each in addresses if each.startswith(DATA_FOLDER)]
    if not keys:
        return
    _check_closed(store, f"{root}{keys[0]}")
    _check_swept(store, f"{root}{keys[0]}")
    missing = find_missing(store, keys)
    if missing is not None:
        raise CollectionStartedError(
            f"nothing was published: a garbage collection or a purge deleted {root}{missing} while "
            "this operation was using it. Try again"
        )


def _is_dead(
    store: ObjectStore, others: Sequence[_AddressConflict], versions: Sequence[MetaRangeId]
) -> bool:
    if not others:
        return False
    # A purge may also delete objects outside of the lake.
    _check_closed(store, others[0].theirs)
    inside = f"{store.uri}/{DATA_FOLDER}"
    own = [each for each in others if each.theirs.startswith(inside)]
    if own:
        _check_swept(store, own[0].theirs)
        if _lacks_objects(store, own):
            return True
    _check_foreign(store, [each for each in others if not each.theirs.startswith(inside)], versions)
    return False


def _lacks_objects(store: ObjectStore, own: Sequence[_AddressConflict]) -> bool:
    """Return whether our objects can replace missing ones. Ours may also be missing."""
    root = f"{store.uri}/"
    with Threads(OBJECT_THREADS, "sparklake-adopt") as threads:
        objects = threads.map(store.find, [each.theirs.removeprefix(root) for each in own])
        missing = [each for each, there in zip(own, objects, strict=True) if there is None]
    ours = [each.ours.removeprefix(root) for each in missing]
    return any(not key.startswith(DATA_FOLDER) or store.find(key) is not None for key in ours)


def _check_closed(store: ObjectStore, address: str) -> None:
    for purge_id in open_purges(store):
        raise PurgeRunningError(
            f"nothing was written: an existing range of the same objects references {address!r}, "
            f"which the purge {purge_id} may delete. Try again after it finishes. If it was "
            f"interrupted, run `sparklake purge resume` {purge_id}"
        )


def _check_swept(store: ObjectStore, address: str) -> None:
    if is_sweep_open(store):
        raise CollectionRunningError(
            f"nothing was written: an existing range of the same objects references {address!r}, "
            "which a running garbage collection may delete. Try again after `sparklake gc run` "
            "finishes"
        )


def _conflicts(store: ObjectStore, ours: Block, theirs: Block) -> list[_AddressConflict]:
    """Return the different addresses in two ranges of equal records."""
    differing = pc.not_equal(ours.encoded.stored_array(), theirs.encoded.stored_array())
    rows = np.flatnonzero(mask_of(differing))
    if not len(rows):
        return []
    try:
        our_entries = decode_entries(ours.take(rows))
    except CorruptFileError:
        return []  # Records of other kinds than objects name no objects.
    their_entries = decode_entries(theirs.take(rows))
    # Most records differ only in their time.
    moved = mask_of(pc.not_equal(our_entries.address, their_entries.address))
    rows = rows[moved | (our_entries.relative != their_entries.relative)]
    ours, theirs = ours.take(rows), theirs.take(rows)
    our_entries, their_entries = decode_entries(ours), decode_entries(theirs)
    uses = zip(
        ours.key_array().to_pylist(),
        full_addresses(store.uri, our_entries).to_pylist(),
        full_addresses(store.uri, their_entries).to_pylist(),
        strict=True,
    )
    return [_AddressConflict(key, our, their) for key, our, their in uses if our != their]


# --- objects that others may delete ---------------------------------------------------------------


def _check_foreign(
    store: ObjectStore, others: Sequence[_AddressConflict], versions: Sequence[MetaRangeId]
) -> None:
    if not others:
        return
    uses = _addresses_in(store, versions, [each.key for each in others])
    for each in others:
        if (each.key, each.theirs) not in uses:
            raise _taken(each)
    with Threads(OBJECT_THREADS, "sparklake-look") as threads:
        for each, there in zip(
            others, threads.map(_is_there, (each.theirs for each in others)), strict=True
        ):
            if not there:
                raise _taken(each)


def _addresses_in(
    store: ObjectStore, versions: Sequence[MetaRangeId], keys: Sequence[bytes]
) -> set[tuple[bytes, str]]:
    requested, hull = set(keys), Interval(keys[0], successor(keys[-1]))
    return {
        (key, address)
        for version in versions
        for block in read_ranges(store, read_meta_range(store, version).ranges, hull)
        for key, address in _addresses(store, block)
        if key in requested
    }


def _addresses(store: ObjectStore, block: Block) -> Iterable[tuple[bytes, str]]:
    entries = decode_entries(block)
    addresses = full_addresses(store.uri, entries).to_pylist()
    return zip(block.key_array().to_pylist(), addresses, strict=True)


def _is_there(address: str) -> bool:
    """Return whether an object exists at a full URI. False if the store fails."""
    with suppress(SparklakeError):
        store, key = open_object(address)
        return store.find(key) is not None
    return False


def _taken(other: _AddressConflict) -> AddressConflictError:
    path = other.key.decode(errors="replace")
    also = f", or use the address {other.theirs}" if _is_there(other.theirs) else ""
    return AddressConflictError(
        f"Nothing was published: {path!r} cannot be written with the address {other.ours}. The "
        f"lake has a range of the same objects with the address {other.theirs} for it, and ranges "
        "never change. Stage or put it with user metadata, which makes it a different "
        f"object{also}.",
        path,
        other.theirs,
    )
