"""The task body listing a directory or bucket prefix."""

from __future__ import annotations

import os
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.times import MICROSECOND, checked_microseconds
from sparklake.interrupts import Threads
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.stores.objects import open_store
from sparklake.stores.objects.listings import ListingPart, column_lister, list_chunks
from sparklake.stores.objects.local.columns import FileColumns
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks

_BATCH_ROWS = 4096
_LISTED_AT_ONCE = 8


def read_listing(source: str, batches: Batches) -> BatchStream:
    """Yield IMPORT_SCHEMA for the objects in ListingParts of a source."""
    store = open_store(source)
    parts = chain.from_iterable(decode_tasks(batches, list[ListingPart]))
    lister = column_lister(store)
    if lister is not None:
        for each in parts:
            for files in lister.scan_columns(each.prefix, level=each.level, exact=True):
                if len(files.keys):
                    yield _file_rows(store, files)
        return
    listings = (list_chunks(store, each, _BATCH_ROWS) for each in parts)
    # A response of S3 has at most 1,000 keys and is slow, so listings run in parallel.
    with Threads(_LISTED_AT_ONCE, "sparklake-list") as threads:
        active = list(islice(listings, _LISTED_AT_ONCE))
        while active:
            chunks = list(threads.map(lambda each: next(each, None), active))
            for chunk in filter(None, chunks):
                yield _rows(store.uri, chunk)
            active = [each for each, chunk in zip(active, chunks, strict=True) if chunk]
            active += islice(listings, _LISTED_AT_ONCE - len(active))


def _file_rows(store: ObjectStore, files: FileColumns) -> pa.RecordBatch:
    keys = files.keys.view(pa.binary())
    times, ends = files.mtimes // MICROSECOND, np.iinfo(np.int64)
    for at in np.flatnonzero((files.mtimes == ends.min) | (files.mtimes == ends.max)).tolist():
        stored = store.find(os.fsdecode(keys[at].as_py()))
        if stored is not None:
            times[at] = checked_microseconds(stored.mtime)  # It has no nanoseconds in 64 bits.
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
