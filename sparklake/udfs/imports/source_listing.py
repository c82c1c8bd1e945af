"""The listing of a directory or bucket prefix, split into parts for tasks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.ports import ObjectStore, StoredFolder, StoredObject
from sparklake.graveler.times import MICROSECOND, checked_microseconds
from sparklake.interrupts import Threads
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.stores.objects import open_store
from sparklake.stores.objects.listings import find_columns, lists_columns, scan_level
from sparklake.stores.objects.local.columns import FileColumns
from sparklake.udfs.tasks import decode_tasks, encode_tasks
from sparklake.uri import is_utf8

_PARTS_WANTED = 128
_MOST_TASKS = 1024
_MOST_LEVELS = 256
_MOST_ENTRIES = 100_000
"""The number of names read from one level. A level with more names is not split."""

_BATCH_ROWS = 4096
_LISTED_AT_ONCE = 8


class ListingPart(msgspec.Struct, frozen=True):
    """A part of a source that a task lists: everything below a prefix, or one level."""

    prefix: str
    level: bool = False


def split_source(
    store: ObjectStore, wanted: int = _PARTS_WANTED, start: str = ""
) -> list[ListingPart]:
    """Return disjoint parts that cover a source: `wanted`, if it has enough folders.

    `start` is the folder to cover, with a trailing '/'.

    Folders are read level by level until there are enough parts. The order of a listing does not
    matter, and objects are not kept in memory.
    """
    waiting, parts = deque([start]), list[ListingPart]()
    for _ in range(_MOST_LEVELS):
        if not waiting or len(waiting) + len(parts) >= wanted:
            break
        prefix = waiting.popleft()
        level = _look_at(store, prefix)
        if level is None:
            parts.append(ListingPart(prefix))
            continue
        folders, has_objects = level
        waiting.extend(folders)
        if has_objects:
            parts.append(ListingPart(prefix, level=True))
    return [*parts, *map(ListingPart, waiting)]


def _look_at(store: ObjectStore, prefix: str) -> tuple[list[str], bool] | None:
    """Return a level's folders and whether it has objects, or None to not split it."""
    folders, has_objects, count = [], False, 0
    for count, each in enumerate(scan_level(store, prefix), start=1):
        if count > _MOST_ENTRIES:
            return None
        if isinstance(each, StoredFolder):
            folders.append(each.key)
        else:
            has_objects = True
    return (folders, has_objects) if all(map(is_utf8, folders)) else None


def listing_work(parts: list[ListingPart]) -> pa.Table:
    """Return parts as TASK_SCHEMA, one or several per row."""
    size = -(-len(parts) // _MOST_TASKS) or 1
    return encode_tasks(parts[at : at + size] for at in range(0, len(parts), size))


def read_listing(source: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of IMPORT_SCHEMA for the objects in parts of a source (TASK_SCHEMA)."""
    store = open_store(source)
    parts = chain.from_iterable(decode_tasks(batches, list[ListingPart]))
    if lists_columns(store):
        for each in parts:
            for files in find_columns(store, each.prefix, level=each.level, exact=True) or ():
                if len(files.keys):
                    yield _file_rows(store, files)
        return
    listings = (_chunks(store, each) for each in parts)
    # A response of S3 has at most 1,000 keys and is slow, so listings run in parallel.
    with Threads(_LISTED_AT_ONCE, "sparklake-list") as threads:
        active = list(islice(listings, _LISTED_AT_ONCE))
        while active:
            chunks = list(threads.map(_next, active))
            for chunk in filter(None, chunks):
                yield _rows(store.uri, chunk)
            active = [each for each, chunk in zip(active, chunks, strict=True) if chunk]
            active += islice(listings, _LISTED_AT_ONCE - len(active))


def _next(chunks: Iterator[list[StoredObject]]) -> list[StoredObject]:
    return next(chunks, [])


def _chunks(store: ObjectStore, part: ListingPart) -> Iterator[list[StoredObject]]:
    found = store.scan(part.prefix, level=part.level)
    objects = (each for each in found if isinstance(each, StoredObject))
    while chunk := list(islice(objects, _BATCH_ROWS)):
        yield chunk


def _file_rows(store: ObjectStore, files: FileColumns) -> pa.RecordBatch:
    keys = files.keys.view(pa.binary())
    times, ends = files.mtimes // MICROSECOND, np.iinfo(np.int64)
    for at in np.flatnonzero((files.mtimes == ends.min) | (files.mtimes == ends.max)).tolist():
        found = store.find(os.fsdecode(keys[at].as_py()))
        if found is not None:
            times[at] = checked_microseconds(found.mtime)  # It has no nanoseconds in 64 bits.
    columns = [
        files.keys,
        pa.array(files.sizes),
        pa.nulls(len(keys), pa.string()),
        pa.array(times).cast(IMPORT_SCHEMA.field("mtime").type),
        pc.binary_join_element_wise(f"{store.uri}/".encode(), keys, b"").view(pa.string()),
    ]
    return pa.record_batch(columns, names=IMPORT_SCHEMA.names[: len(columns)])


def _rows(root: str, chunk: list[StoredObject]) -> pa.RecordBatch:
    keys = [each.key.encode(errors="surrogateescape") for each in chunk]
    start = f"{root}/".encode()
    mtimes = pa.array([checked_microseconds(each.mtime) for each in chunk], pa.int64())
    columns = [
        _text(keys),
        pa.array([each.size for each in chunk], pa.int64()),
        pa.array([each.checksum or None for each in chunk], pa.string()),
        mtimes.cast(IMPORT_SCHEMA.field("mtime").type),
        _text([start + key for key in keys]),
    ]
    return pa.record_batch(columns, names=IMPORT_SCHEMA.names[: len(columns)])


def _text(values: list[bytes]) -> pa.StringArray:
    return pa.array(values, pa.binary()).view(pa.string())
