"""Lists what is to be imported, where it lies: no byte is copied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import pyarrow as pa

from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.records import Record
from sparklake.stores.objects import open_store
from sparklake.udfs.objects import ObjectInfo, object_record, record_batch
from sparklake.udfs.tasks import Workspace

SOURCE_SCHEMA = pa.schema([pa.field("prefix", pa.string(), nullable=False)])
_BATCH_ROWS = 4096


def list_source_body(
    workspace: Workspace, source: str, dest_prefix: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields RECORD_SCHEMA for the objects of a source, under prefixes given as SOURCE_SCHEMA.

    Raises MissingFileError for an object that vanishes between its listing and its reading.
    """
    store = open_store(source)
    describe = partial(_record, workspace, store, dest_prefix)
    # Hashing lets go of the interpreter lock, so a task's threads share its cores.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for batch in batches:
            for prefix in batch.column("prefix").to_pylist():
                listing = store.list(prefix)
                while chunk := list(islice(listing, _BATCH_ROWS)):
                    yield record_batch(list(threads.map(describe, chunk)))


def _record(
    workspace: Workspace, store: ObjectStore, dest_prefix: str, found: StoredObject
) -> Record:
    each = ObjectInfo(
        path=dest_prefix + found.key,
        size=found.size,
        checksum=found.checksum or store.checksum(found.key),
        mtime=found.mtime,
        address=f"{store.uri}/{found.key}",
    )
    return object_record(each, workspace.storage_namespace)
