"""Ranges that are there already: what they name must be there, too.

A range of the same records may name other objects of equal contents, and if nothing has named it
since, a garbage collection may have taken those, or be about to. So whoever writes a range that is
there already reads it, and where it names others, sees to it that they are there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow.compute as pc

from sparklake.config import disk_root
from sparklake.errors import CollectionOpenError, CorruptFileError, MissingFileError
from sparklake.graveler.blocks import Block
from sparklake.graveler.entry_columns import decode_entries
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.tables import read_range_file
from sparklake.interrupts import Threads
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_object
from sparklake.udfs.strategies.objects import DATA_FOLDER

COLLECTIONS_FOLDER = "_sparklake/gc"
MARKER_KEY = f"{COLLECTIONS_FOLDER}/open"
"""Is there while a collection takes objects, from before it begins to look for what is named."""

OBJECT_THREADS = 16


@dataclass(frozen=True, slots=True)
class _Other:
    """Is an object in the namespace that stands for another one, given by its address."""

    key: str
    ours: str
    relative: bool


def is_sweep_open(store: ObjectStore) -> bool:
    """Tells whether a collection may be taking objects."""
    return store.find(MARKER_KEY) is not None


def check_adopted(store: ObjectStore, files: Mapping[str, bytes]) -> None:
    """Sees to it that all objects are there which the ranges name that are at the keys of some.

    An object that is gone is put back, of what our range names. Raises CollectionOpenError where it
    may be taken yet.
    """
    for key, file in files.items():
        found = store.get(key)
        if found != file:
            table_id = key.rsplit("/", 1)[-1]
            ours, theirs = (read_range_file(each, table_id) for each in (file, found))
            _check_objects(store, ours, theirs)


def _check_objects(store: ObjectStore, ours: Block, theirs: Block) -> None:
    others = _others(ours, theirs)
    if not others:
        return
    if is_sweep_open(store):
        raise CollectionOpenError(
            f"what is to be written is there already and names {others[0].key!r}, which a garbage "
            "collection may be taking: try again when `sparklake gc run` has ended"
        )
    with Threads(OBJECT_THREADS, "sparklake-adopt") as threads:
        for _ in threads.map(partial(_put_back, store), others):
            pass


def _others(ours: Block, theirs: Block) -> list[_Other]:
    differing = pc.not_equal(ours.stored_array(), theirs.stored_array())
    rows = np.flatnonzero(differing.to_numpy(zero_copy_only=False))
    if not len(rows):
        return []
    try:
        wanted = decode_entries(ours.take(rows))
    except CorruptFileError:
        return []  # Records of something else than objects name none.
    found = decode_entries(theirs.take(rows))
    return [
        _Other(key, address, relative)
        for key, is_inside, address, relative in zip(
            found.address.to_pylist(),
            found.relative.tolist(),
            wanted.address.to_pylist(),
            wanted.relative.tolist(),
            strict=True,
        )
        if is_inside and key.startswith(f"{DATA_FOLDER}/") and key != address
    ]


def _put_back(store: ObjectStore, other: _Other) -> None:
    if store.find(other.key) is not None:
        return
    source, key = (store, other.ours) if other.relative else open_object(other.ours)
    with scratch_folder(disk_root()) as scratch:
        try:
            source.get_to_file(key, scratch / "found")
        except MissingFileError:
            return  # It was staged by an address at which there is nothing.
        # A copy: of a file that is not ours a link would change with it.
        shutil.copyfile(scratch / "found", scratch / "copy")
        store.put_files_if_absent({other.key: scratch / "copy"})
