"""Task bodies of a garbage collection: list, mark, compare and sweep.

Addresses are stored as keys of records, in the same ranges as objects, so a diff of ranges finds
the unreferenced objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidKeyError
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.buffers import Positions, mask_of
from sparklake.graveler.chunks import chunked
from sparklake.graveler.entries import record_entry
from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.records import MAX_KEY_BYTES, Record, encode_record
from sparklake.graveler.sums import column_sum
from sparklake.graveler.times import shown_nanoseconds
from sparklake.interrupts import Threads
from sparklake.layout import DATA_FOLDER, NAMESPACE_MARKER_KEY
from sparklake.namespace.addresses import OwnNamespace
from sparklake.namespace.lookups import OBJECT_THREADS
from sparklake.namespace.markers import check_sweep
from sparklake.namespace.nesting import NamespaceMarks, nested_error
from sparklake.rows.objects import ObjectInfo, object_record
from sparklake.rows.records import record_batch, record_block
from sparklake.rows.results import PieceResult, encode_results
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.stores.objects.addresses import shown_addresses
from sparklake.udfs.range_sink import open_sink
from sparklake.udfs.streams import open_tasks
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks, range_blocks

WEIGHT_SCHEMA = required_schema(objects=pa.int64(), bytes=pa.int64())

_NAMED = b"named"
_BATCH_ROWS = 8192
_DELETED_AT_ONCE = 64 * OBJECT_THREADS


def listed_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Yield RECORD_SCHEMA for the objects below prefixes. A nested namespace is an error."""
    store = open_store(workspace.storage_namespace)
    for prefix in decode_tasks(batches, str):
        for chunk in chunked(store.list(prefix), _BATCH_ROWS):
            yield record_batch([each for stored in chunk for each in _listed(store, stored)])


def named_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Yield RECORD_SCHEMA for the namespace's addresses in ranges."""
    store, own = workspace.open_store(), OwnNamespace(workspace.storage_namespace)
    for block in range_blocks(store, batches):
        yield _named_batch(own, block)


def named_rows_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Yield RECORD_SCHEMA for the namespace's addresses in records."""
    own = OwnNamespace(workspace.storage_namespace)
    for batch in batches:
        yield _named_batch(own, record_block(batch))


def _named_batch(own: OwnNamespace, block: Block) -> pa.RecordBatch:
    entries = decode_entries(block.take(np.flatnonzero(~block.tombstones)))
    keys = set[bytes]()
    addresses = shown_addresses(entries.address).to_pylist()
    for address, relative in zip(addresses, entries.relative, strict=True):
        keys.update(key.encode() for key in _keys(own, address, relative=bool(relative)))
    usable = sorted(key for key in keys if len(key) <= MAX_KEY_BYTES)
    return record_batch([encode_record(key, _NAMED, b"") for key in usable])


def distinct_run_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Write a run from sorted rows of RECORD_SCHEMA, each key once."""
    sink = open_sink(workspace)
    ranges = sink.write(_distinct(batches))
    sink.put()
    yield encode_results([PieceResult(0, ranges)], sink.replaced)


def garbage_body(
    workspace: Workspace, before: int, spared: Sequence[str], watched: str | None, batches: Batches
) -> BatchStream:
    """Yield RECORD_SCHEMA for unreferenced objects written before `before`.

    The sides are listed objects, then two lists of referenced ones. `before` is in unix
    nanoseconds. Objects under a spared prefix are skipped. Raises for an object in a nested
    namespace inside `watched`: the list of an earlier run may predate that namespace.
    """
    marks = NamespaceMarks(open_store(watched)) if watched else None
    for listed, first, *others in open_tasks(workspace, batches):
        for changes in diff(listed, apply(others, first, ChangeCounts())):
            is_unreferenced = changes.left.present & ~changes.right.present
            records = changes.left.where(is_unreferenced).records().records()
            old = (each for each in records if record_entry(each).mtime < before)
            garbage = [each for each in old if not each[0].decode().startswith(tuple(spared))]
            if marks is not None:
                _check_apart(marks, (key.decode() for key, *_ in garbage))
            yield record_batch(garbage)


def weigh_body(workspace: Workspace, batches: Batches) -> BatchStream:
    """Yield WEIGHT_SCHEMA for listed objects."""
    for (blocks,) in open_tasks(workspace, batches):
        for block in blocks:
            yield _weight(decode_entries(block).size)


def sweep_body(workspace: Workspace, namespace: str, marker: str, batches: Batches) -> BatchStream:
    """Delete listed objects unless another process closes the sweep; yield WEIGHT_SCHEMA."""
    store = open_store(namespace)
    marks = NamespaceMarks(store)
    with Threads(OBJECT_THREADS, "sparklake-sweep") as threads:
        for (blocks,) in open_tasks(workspace, batches):
            for block in blocks:
                keys = [key.decode() for key in block.key_array().to_pylist()]
                if not all(each.startswith(DATA_FOLDER) for each in keys):
                    raise InvalidKeyError(
                        f"a garbage collection deletes only objects below {DATA_FOLDER}"
                    )
                # The list may be old: another namespace may have been created since.
                _check_apart(marks, keys)
                for chunk in chunked(keys, _DELETED_AT_ONCE):
                    check_sweep(store, marker)
                    list(threads.map(store.delete, chunk))
                yield _weight(decode_entries(block).size)


def _check_apart(marks: NamespaceMarks, keys: Iterable[str]) -> None:
    folders = {f"{key.rpartition('/')[0]}/" for key in keys}
    with Threads(OBJECT_THREADS, "sparklake-marks") as threads:
        list(threads.map(marks.check, folders))


def _listed(store: ObjectStore, stored: StoredObject) -> Iterator[Record]:
    if stored.key.endswith(f"/{NAMESPACE_MARKER_KEY}") and stored.key.startswith(DATA_FOLDER):
        raise nested_error(f"{store.uri}/{stored.key.removesuffix(f'/{NAMESPACE_MARKER_KEY}')}")
    address = f"{store.uri}/{stored.key}"
    mtime = shown_nanoseconds(stored.mtime)
    each = ObjectInfo(stored.key, stored.size, stored.checksum, mtime, address)
    if stored.key.startswith(DATA_FOLDER) and len(stored.key.encode()) <= MAX_KEY_BYTES:
        yield object_record(each, "")


def _keys(own: OwnNamespace, address: str, *, relative: bool) -> Iterator[str]:
    """Yield all possible keys of an address in the namespace.

    A full address may be another spelling of a key, or reach it through symbolic links.
    """
    if address.startswith(DATA_FOLDER):
        yield address
    if relative:
        return
    if (linked := own.find_key(address)) is not None and linked.startswith(DATA_FOLDER):
        yield linked
    at = address.find(f"/{DATA_FOLDER}")
    while at >= 0:
        yield address[at + 1 :]
        at = address.find(f"/{DATA_FOLDER}", at + 1)


def _distinct(batches: Batches) -> Iterator[Block]:
    last = None
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = batch.column("key").cast(pa.binary())
        is_new = np.ones(len(keys), bool)
        is_new[1:] = mask_of(pc.not_equal(keys[1:], keys[:-1]))
        is_new[0] = keys[0].as_py() != last
        last = keys[-1].as_py()
        if is_new.any():
            yield record_block(batch.filter(pa.array(is_new)))


def _weight(sizes: Positions) -> pa.RecordBatch:
    return pa.record_batch([[len(sizes)], [column_sum(sizes)]], schema=WEIGHT_SCHEMA)
