"""Digests of the contents of trees: of the keys, and of everything in their identities.

The digest of a tree is compared with the expected one, which is computed from the data alone: the
base with the change sets applied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import data
from sparklake.engine.threads import LocalRunner
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.packing import pack_tasks
from sparklake.graveler.sstable.range_files import read_meta_range
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.udfs.objects import list_body
from sparklake.udfs.tasks import encode_tasks

_TASK_RECORDS = 250_000


def digest_of_tree(namespace: str, tree: MetaRangeId) -> str:
    """Return the digest of a tree in a storage namespace, sparklake's or the peer's."""
    ranges = read_meta_range(open_store(namespace), tree).ranges
    body = partial(list_body, Workspace(namespace, DEFAULT_RANGE_RECORDS))
    work = encode_tasks(pack_tasks(plan_listing(ranges, ()), _TASK_RECORDS))
    return _digest(LocalRunner().stream(body, work))


def digest_of_data(base: pa.Table, *sets: data.Changes) -> str:
    """Return the digest of a base with change sets applied, which have no key in common."""
    return _digest(_changed(base, sets))


def _changed(base: pa.Table, sets: Sequence[data.Changes]) -> Iterator[pa.RecordBatch]:
    # Entry i is of order 2i; what is added beside it comes right after it.
    order = np.concatenate([np.empty(0, np.int64), *(each.order for each in sets)])
    sequence = np.argsort(order)
    order = order[sequence]
    staged = pa.concat_tables([data.STAGED_SCHEMA.empty_table(), *(each.rows() for each in sets)])
    staged = staged.take(sequence)
    start = 0
    for batch in base.to_batches():
        stop = start + batch.num_rows
        first, last = np.searchsorted(order, [2 * start, 2 * stop])
        here, rows = order[first:last], staged.slice(first, last - first)
        replaced = here[here % 2 == 0] // 2 - start
        kept = np.ones(batch.num_rows, bool)
        kept[replaced] = False
        put = ~np.asarray(rows["deleted"])
        parts = [
            pa.table(batch).filter(pa.array(kept)),
            rows.filter(pa.array(put)).drop_columns("deleted"),
        ]
        places = np.concatenate([2 * (start + np.flatnonzero(kept)), here[put]])
        yield from pa.concat_tables(parts).take(np.argsort(places)).to_batches()
        start = stop


def _digest(batches: Iterable[pa.RecordBatch]) -> str:
    digest = hashlib.sha256()
    for batch in batches:
        size = pc.cast(batch["size"], pa.string())
        kind = batch["content_type"] if "content_type" in batch.schema.names else data.CONTENT_TYPE
        lines = pc.binary_join_element_wise(batch["path"], size, batch["checksum"], kind, "\n", " ")
        digest.update("".join(lines.to_pylist()).encode())
    return digest.hexdigest()
