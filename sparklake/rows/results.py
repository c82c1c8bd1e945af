"""Messages from tasks to the driver. Features add their own kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from operator import or_
from types import MappingProxyType

import msgspec
import pyarrow as pa

from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.ids import RangeId
from sparklake.graveler.sstable.range_files import WrittenRange, as_put
from sparklake.stores.cache.counts import TALLY, CacheCounts

RESULT_SCHEMA = required_schema(result=pa.binary())


class TaskResult(msgspec.Struct, frozen=True):
    """A message from a task. A feature's kinds are subclasses with a tag on the wire."""


class PieceResult(TaskResult, frozen=True, tag="piece"):
    """The ranges written for a piece of the plan, in key order."""

    position: int
    written: tuple[WrittenRange, ...]


class ChangesResult(TaskResult, frozen=True, tag="changes"):
    """The counts of a task's changes."""

    counts: ChangeCounts


class KeysResult(TaskResult, frozen=True, tag="keys"):
    """The changed keys, or None for too many."""

    keys: tuple[bytes, ...] | None


class CacheResult(TaskResult, frozen=True, tag="cache"):
    """The cache statistics of a task's process, over all its tasks so far."""

    process: str
    counts: CacheCounts


_encode = msgspec.msgpack.Encoder().encode


def encode_results(
    results: Iterable[TaskResult], replaced: Mapping[RangeId, RangeId] = MappingProxyType({})
) -> pa.RecordBatch:
    """Encode results and cache statistics. `replaced` maps range ids to the ids in use."""
    cache = CacheResult(*TALLY.report())
    messages = (*results, cache) if cache.counts.reads else results
    if replaced:
        messages = [_as_put(each, replaced) for each in messages]
    column = pa.array([_encode(result) for result in messages], pa.binary())
    return pa.record_batch([column], schema=RESULT_SCHEMA)


def _as_put(result: TaskResult, replaced: Mapping[RangeId, RangeId]) -> TaskResult:
    if not isinstance(result, PieceResult):
        return result
    ranges = tuple(
        WrittenRange(as_put(each.info, replaced), each.closed) for each in result.written
    )
    return PieceResult(result.position, ranges)


def decode_results(batches: Iterable[pa.RecordBatch]) -> Iterator[TaskResult]:
    """Decode batches of RESULT_SCHEMA."""
    decode = _decoder(tuple(TaskResult.__subclasses__()))
    for batch in batches:
        for encoded in batch.column("result"):
            yield decode(encoded.as_py())


@lru_cache
def _decoder(kinds: tuple[type[TaskResult], ...]) -> Callable[[bytes], TaskResult]:
    return msgspec.msgpack.Decoder(reduce(or_, kinds)).decode
