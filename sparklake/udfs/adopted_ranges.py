"""Verification of existing ranges before their reuse.

The id of a range does not depend on addresses, so a range of equal records may reference other
objects of equal content. Such a range can be left over from dropped changes, and a garbage
collection or the owner of an object may have deleted its objects. Its file never changes. So a task
reads each range that exists already and compares the addresses:

- An object below `data/` belongs to the lake. It is used if it exists. After its deletion the range
  is dead: nothing is restored at its address, because a delete request may still be in flight. Our
  records become the next generation of the range.
- The owner of any other object may delete it. It is used only if a version references it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
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
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import (
    read_meta_range,
    read_range_file,
    read_ranges,
    table_key,
)
from sparklake.interrupts import Threads
from sparklake.namespace.addresses import full_addresses
from sparklake.namespace.layout import DATA_FOLDER
from sparklake.namespace.lookups import OBJECT_THREADS, find_missing
from sparklake.namespace.markers import is_sweep_open, open_purges
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_object
from sparklake.udfs.tasks import decode_tasks


@dataclass(frozen=True, slots=True)
class _AddressConflict:
    """An object of an existing range with another address than ours. Both are full URIs."""

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
        found = store.get(table_key(range_id))
        if found != file:
            ours, theirs = (read_range_file(each, range_id) for each in (file, found))
            if _is_dead(store, _others(store, ours, theirs), versions):
                dead.append(range_id)
    return dead


def check_objects_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Verify that the lake's objects in written ranges still exist.

    Runs after a later fence, for tasks of ranges. Yields nothing.
    """
    store = workspace.open_store()
    for ranges in decode_tasks(batches, tuple[RangeInfo, ...]):
        for block in read_ranges(store, ranges):
            _check_present(store, block)
    yield from ()


def _check_present(store: ObjectStore, block: Block) -> None:
    root = f"{store.uri}/"
    entries = decode_entries(block.take(np.flatnonzero(~block.tombstones)))
    named = [each.removeprefix(root) for each in full_addresses(store.uri, entries).to_pylist()]
    keys = [each for each in named if each.startswith(DATA_FOLDER)]
    if not keys:
        return
    _check_closed(store, f"{root}{keys[0]}")
    _check_swept(store, f"{root}{keys[0]}")
    gone = find_missing(store, keys)
    if gone is not None:
        raise CollectionStartedError(
            f"nothing was published: a garbage collection or a purge deleted {root}{gone} while "
            "this operation was using it. Try again"
        )


def _is_dead(
    store: ObjectStore, others: Sequence[_AddressConflict], versions: Sequence[MetaRangeId]
) -> bool:
    """Return whether an object of the lake in the existing range was deleted."""
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
    """Return whether an object of the lake is missing and ours can replace it.

    If ours is missing too, it was purged, or staged with an address of no object.
    """
    root = f"{store.uri}/"
    with Threads(OBJECT_THREADS, "sparklake-adopt") as threads:
        found = threads.map(store.find, [each.theirs.removeprefix(root) for each in own])
        missing = [each for each, there in zip(own, found, strict=True) if there is None]
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


def _others(store: ObjectStore, ours: Block, theirs: Block) -> list[_AddressConflict]:
    """Return the objects with different addresses in two ranges of equal records."""
    differing = pc.not_equal(ours.stored_array(), theirs.stored_array())
    rows = np.flatnonzero(differing.to_numpy(zero_copy_only=False))
    if not len(rows):
        return []
    try:
        wanted = decode_entries(ours.take(rows))
    except CorruptFileError:
        return []  # Records of other kinds than objects name no objects.
    found = decode_entries(theirs.take(rows))
    # Most records differ only in their time.
    moved = pc.not_equal(wanted.address, found.address).to_numpy(zero_copy_only=False)
    rows = rows[moved | (wanted.relative != found.relative)]
    ours, theirs = ours.take(rows), theirs.take(rows)
    wanted, found = decode_entries(ours), decode_entries(theirs)
    named = zip(
        ours.key_array().to_pylist(),
        full_addresses(store.uri, wanted).to_pylist(),
        full_addresses(store.uri, found).to_pylist(),
        strict=True,
    )
    return [each for each in (_AddressConflict(*row) for row in named) if each.ours != each.theirs]


# --- objects that others may delete ---------------------------------------------------------------


def _check_foreign(
    store: ObjectStore, others: Sequence[_AddressConflict], versions: Sequence[MetaRangeId]
) -> None:
    if not others:
        return
    named = _named_by(store, versions, [each.key for each in others])
    for each in others:
        if (each.key, each.theirs) not in named:
            raise _taken(each)
    with Threads(OBJECT_THREADS, "sparklake-look") as threads:
        for each, there in zip(
            others, threads.map(_is_there, (each.theirs for each in others)), strict=True
        ):
            if not there:
                raise _taken(each)


def _named_by(
    store: ObjectStore, versions: Sequence[MetaRangeId], keys: Sequence[bytes]
) -> set[tuple[bytes, str]]:
    """Return the pairs of a requested key and its address in any of the trees."""
    wanted, hull = set(keys), Interval(keys[0], successor(keys[-1]))
    return {
        (key, address)
        for version in versions
        for block in read_ranges(store, read_meta_range(store, version).ranges, hull)
        for key, address in _addresses(store, block)
        if key in wanted
    }


def _addresses(store: ObjectStore, block: Block) -> Iterable[tuple[bytes, str]]:
    entries = decode_entries(block)
    addresses = full_addresses(store.uri, entries).to_pylist()
    return zip(block.key_array().to_pylist(), addresses, strict=True)


def _is_there(address: str) -> bool:
    """Return whether an object exists at a full URI. A failing store counts as no."""
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
