"""What tasks say to the driver: a small message for each piece of the plan, and for conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa

from sparklake.graveler.algebra import ChangeCounts, Conflict
from sparklake.graveler.sstable.store import WrittenRange
from sparklake.stores.cache.counts import TALLY, CacheCounts
from sparklake.udfs.imports.defects import Defect, Reason

RESULT_SCHEMA = pa.schema([pa.field("result", pa.binary(), nullable=False)])


class PieceResult(msgspec.Struct, frozen=True, tag="piece"):
    """Says which ranges a piece of the plan made, in key order."""

    position: int
    written: tuple[WrittenRange, ...]


class ChangesResult(msgspec.Struct, frozen=True, tag="changes"):
    """Says what a task changed."""

    counts: ChangeCounts


class KeysResult(msgspec.Struct, frozen=True, tag="keys"):
    """Says which keys a task changed; None when they are too many."""

    keys: tuple[bytes, ...] | None


class ConflictCountResult(msgspec.Struct, frozen=True, tag="conflict-count"):
    """Says how many conflicts a task met, and how many of them nothing has decided.

    `logs` is the folders of Delta logs of which it met something that is not as in dest.
    """

    conflicts: int
    left: int = 0
    logs: tuple[bytes, ...] = ()


class ConflictResult(msgspec.Struct, frozen=True, tag="conflict"):
    """One conflict; only the first ones of a task are reported."""

    conflict: Conflict


class Kept(NamedTuple):
    """A side of a conflict on a key, whose object another key is wanted for; its stored value.

    The value's record id is that of the first key.
    """

    key: bytes
    wanted: bytes
    stored: bytes


class KeptResult(msgspec.Struct, frozen=True, tag="kept"):
    """Says which object a task wants to be kept besides what it has written."""

    kept: Kept


class PreviewResult(msgspec.Struct, frozen=True, tag="preview"):
    """Says what a merge would change in dest, sizes in bytes, and what it could not decide."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    added_bytes: int = 0
    changed_bytes: int = 0
    removed_bytes: int = 0
    conflicts: int = 0
    unresolved: int = 0
    logs: tuple[bytes, ...] = ()


class ErrorsResult(msgspec.Struct, frozen=True, tag="errors"):
    """Says how many rows of an import a task has left out, by reason; has the first of them."""

    counts: dict[Reason, int]
    first: tuple[Defect, ...]


class CacheResult(msgspec.Struct, frozen=True, tag="cache"):
    """Says what the cache did for the process of a task, in all its tasks so far."""

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


def encode_results(results: Iterable[Result]) -> pa.RecordBatch:
    """Return results, and what the cache did, as one batch of RESULT_SCHEMA."""
    cache = CacheResult(*TALLY.report())
    said = (*results, cache) if cache.counts.reads else results
    column = pa.array([_encode(result) for result in said], pa.binary())
    return pa.record_batch([column], schema=RESULT_SCHEMA)


def decode_results(batches: Iterable[pa.RecordBatch]) -> Iterator[Result]:
    """Yield the results in batches of RESULT_SCHEMA."""
    for batch in batches:
        for encoded in batch.column("result"):
            yield _decode(encoded.as_py())
