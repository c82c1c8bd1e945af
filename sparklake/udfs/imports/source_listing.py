"""The listing of a directory or bucket prefix, split into parts for tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec
import pyarrow as pa

from sparklake.graveler.ports import ObjectStore, StoredFolder, StoredObject
from sparklake.graveler.times import checked_microseconds
from sparklake.interrupts import Threads
from sparklake.stores.objects import open_store
from sparklake.stores.objects.key_checks import is_utf8
from sparklake.udfs.imports.row_checks import IMPORT_SCHEMA
from sparklake.udfs.workspace import TASK_SCHEMA

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
    for count, each in enumerate(store.scan(prefix, level=True), start=1):
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
    rows = [msgspec.msgpack.encode(parts[at : at + size]) for at in range(0, len(parts), size)]
    positions = pa.array(range(len(rows)), pa.int64())
    return pa.table([positions, pa.array(rows, pa.binary())], schema=TASK_SCHEMA)


def read_listing(source: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of IMPORT_SCHEMA for the objects in parts of a source (TASK_SCHEMA)."""
    store = open_store(source)
    decode = msgspec.msgpack.Decoder(list[ListingPart]).decode
    tasks = (each.as_py() for batch in batches for each in batch.column("task"))
    parts = chain.from_iterable(map(decode, tasks))
    listings = (_chunks(store, each) for each in parts)
    if not source.startswith("s3"):
        for chunk in chain.from_iterable(listings):
            yield _rows(store.uri, chunk)
        return
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


def _rows(root: str, chunk: list[StoredObject]) -> pa.RecordBatch:
    # File names may not be UTF-8. The checks of rows report that.
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
