"""Changes to folders of data files in a merge, and the differing files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.algebra.compare import three_way
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.align import aligned, find_ids
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.buffers import mask_of
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.rows.settings import Workspace
from sparklake.udfs.observed_changes import DATA_FILE, IN_TABLE, first_files
from sparklake.udfs.streams import open_tasks, records_of
from sparklake.udfs.tasks import Batches, BatchStream

FOLDER_CHANGE_SCHEMA = required_schema(kind=pa.int8(), folder=pa.binary(), key=pa.binary())
DIFFERENCE_SCHEMA = pa.schema(
    [("key", pa.binary()), ("source", pa.binary()), ("dest", pa.binary()), ("outcome", pa.string())]
)

Encode = Callable[[Block, Block, Block], pa.RecordBatch]


class FolderChange(IntEnum):
    """A kind of change to a folder, or, for the last two, to a table.

    `REMOVED` are files of base that neither side has: both removed them, or changed them
    differently. `SOURCE` and `DEST` are files that one side alone added or changed, and the kept
    ones are files of base.
    """

    REMOVED = 0
    SOURCE = 1
    DEST = 2
    SOURCE_KEEPS = 3
    DEST_KEEPS = 4


def folders_body(
    workspace: Workspace, path_filter: PathFilter, encode: Encode, batches: Batches
) -> BatchStream:
    """Yield the encoded blocks. Those of base, source and dest have the same keys."""
    for sides in open_tasks(workspace, batches):
        for blocks in aligned(*(records_of(each, path_filter) for each in sides)):
            yield encode(*blocks)


def folder_changes(base: Block, source: Block, dest: Block) -> pa.RecordBatch:
    """Return FOLDER_CHANGE_SCHEMA: the first data file for each kind of change and folder."""
    changes, outcomes = three_way(base, source, dest)
    kinds = {FolderChange.REMOVED: _removed(base, source, dest)}
    if outcomes:
        in_source = outcomes[KeyOutcome.TAKE_SOURCE] & changes.right.present
        in_dest = outcomes[KeyOutcome.TAKE_DEST] & changes.left.present
        kinds[FolderChange.SOURCE] = changes.where(in_source).keys()
        kinds[FolderChange.DEST] = changes.where(in_dest).keys()
    for kind, side in ((FolderChange.SOURCE_KEEPS, source), (FolderChange.DEST_KEEPS, dest)):
        at = find_ids(side.ids, base.ids)
        kinds[kind] = base.take(np.flatnonzero(at >= 0)).key_array()
    rows = [(kind, *each) for kind, keys in kinds.items() for each in _firsts(kind, keys)]
    return _batch(zip(*rows, strict=True) if rows else ((), (), ()), FOLDER_CHANGE_SCHEMA)


def _removed(base: Block, source: Block, dest: Block) -> pa.Array:
    """Return the keys of base whose records neither side has, unless both changed them equally."""
    alone = [find_ids(side.ids, base.ids) < 0 for side in (source, dest)]
    gone = base.take(np.flatnonzero(alone[0] & alone[1]))
    if not len(gone):
        return gone.key_array()
    (at, in_source), (there, in_dest) = source.find(gone.keys), dest.find(gone.keys)
    both = np.flatnonzero(in_source & in_dest)
    equal = (source.ids[at[both]] == dest.ids[there[both]]).all(axis=1)
    differing = np.ones(len(gone), bool)
    differing[both[equal]] = False
    return gone.take(np.flatnonzero(differing)).key_array()


def _firsts(kind: FolderChange, keys: pa.Array) -> Iterator[tuple[bytes, bytes]]:
    """Yield each folder with its first data file. `keys` are in order."""
    keys = keys.filter(pc.match_substring_regex(keys, DATA_FILE))
    keeps = kind in (FolderChange.SOURCE_KEEPS, FolderChange.DEST_KEEPS)
    for folder, key in first_files(keys, IN_TABLE if keeps else "[^/]*$"):
        yield folder, key.as_py()


def differing_files(base: Block, source: Block, dest: Block) -> pa.RecordBatch:
    """Return DIFFERENCE_SCHEMA: the data files that differ, as stored values."""
    changes, outcomes = three_way(base, source, dest)
    keys = changes.keys()
    mask = mask_of(pc.match_substring_regex(keys, DATA_FILE))
    kinds = np.full(len(mask), "", object)
    for outcome, rows in outcomes.items():
        kinds[rows] = outcome.value
    changes = changes.where(mask)
    columns = [keys.filter(pa.array(mask)), changes.right.stored(), changes.left.stored()]
    return _batch([*columns, kinds[mask]], DIFFERENCE_SCHEMA)


def _batch(columns: Iterable[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = map(pa.array, columns, schema.types)
    return pa.record_batch(list(arrays), schema=schema)
