"""Messages from tasks to the driver: results of pieces, counts and conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pyarrow as pa

from sparklake.graveler.algebra import ChangeCounts, Conflict
from sparklake.graveler.ids import RangeId
from sparklake.graveler.sstable.range_files import WrittenRange, as_put
from sparklake.rows.added_files import AddedFiles
from sparklake.rows.defects import Defect, Reason
from sparklake.stores.cache.counts import TALLY, CacheCounts

RESULT_SCHEMA = pa.schema([pa.field("result", pa.binary(), nullable=False)])


class PieceResult(msgspec.Struct, frozen=True, tag="piece"):
    """The ranges that a piece of the plan produced, in key order."""

    position: int
    written: tuple[WrittenRange, ...]


class ChangesResult(msgspec.Struct, frozen=True, tag="changes"):
    """The counts of a task's changes."""

    counts: ChangeCounts


class KeysResult(msgspec.Struct, frozen=True, tag="keys"):
    """The keys that a task changed, or None if there are too many."""

    keys: tuple[bytes, ...] | None


class ConflictCountResult(msgspec.Struct, frozen=True, tag="conflict-count"):
    """The counts of a task's conflicts, in total and undecided.

    `logs` are the folders of Delta logs in which the task found a record that differs from dest,
    `added_files` samples of the Parquet files that the sides have added.
    """

    conflicts: int
    left: int = 0
    logs: tuple[bytes, ...] = ()
    added_files: AddedFiles = msgspec.field(default_factory=AddedFiles)


class ConflictResult(msgspec.Struct, frozen=True, tag="conflict"):
    """One conflict. A task reports only its first ones."""

    conflict: Conflict


class KeptObject(NamedTuple):
    """An object of a conflict's side on `key`, to be kept under the key `wanted`.

    The record id in `stored` is that of `key`.
    """

    key: bytes
    wanted: bytes
    stored: bytes


class KeptResult(msgspec.Struct, frozen=True, tag="kept"):
    """An object that a task asks to keep besides its own results."""

    kept: KeptObject


class PreviewResult(msgspec.Struct, frozen=True, tag="preview"):
    """The changes that a merge would make in dest, and its conflicts. Sizes are in bytes."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    added_bytes: int = 0
    changed_bytes: int = 0
    removed_bytes: int = 0
    conflicts: int = 0
    unresolved: int = 0
    logs: tuple[bytes, ...] = ()
    added_files: AddedFiles = msgspec.field(default_factory=AddedFiles)


class ErrorsResult(msgspec.Struct, frozen=True, tag="errors"):
    """The counts of rows that a task of an import left out, by reason, and first rows."""

    counts: dict[Reason, int]
    first: tuple[Defect, ...]


class CacheResult(msgspec.Struct, frozen=True, tag="cache"):
    """The cache statistics of a task's process, over all its tasks so far."""

    process: str
    counts: CacheCounts


Result = (
    PieceResult
    | ChangesResult
    | KeysResult
    | ConflictCountResult
    | ConflictResult
    | KeptResult
    | PreviewResult
    | ErrorsResult
    | CacheResult
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Result).decode


def encode_results(
    results: Iterable[Result], replaced: Mapping[RangeId, RangeId] = MappingProxyType({})
) -> pa.RecordBatch:
    """Return results and the cache statistics as one batch of RESULT_SCHEMA.

    `replaced` are the ids of a sink's ranges that were put under other ids.
    """
    cache = CacheResult(*TALLY.report())
    said = (*results, cache) if cache.counts.reads else results
    if replaced:
        said = [_as_put(each, replaced) for each in said]
    column = pa.array([_encode(result) for result in said], pa.binary())
    return pa.record_batch([column], schema=RESULT_SCHEMA)


def _as_put(result: Result, replaced: Mapping[RangeId, RangeId]) -> Result:
    if not isinstance(result, PieceResult):
        return result
    written = tuple(
        WrittenRange(as_put(each.info, replaced), each.closed) for each in result.written
    )
    return PieceResult(result.position, written)


def decode_results(batches: Iterable[pa.RecordBatch]) -> Iterator[Result]:
    """Yield the results in batches of RESULT_SCHEMA."""
    for batch in batches:
        for encoded in batch.column("result"):
            yield _decode(encoded.as_py())
