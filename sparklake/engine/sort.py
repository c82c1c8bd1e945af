"""The sort of runs: sort slices to files, then read shares in order.

Both steps are functions of small values. Any process on the same disk may call them. Each holds
about SORT_BYTES of records at most, however many there are in all.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.engine.base import Work
from sparklake.graveler.keys import Interval, successor
from sparklake.rows.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from sparklake.engine.base import Body, Source

T = TypeVar("T")

SORT_BYTES = 32 * 1024 * 1024
"""The bytes of records that are sorted in memory at a time."""

_BATCH_ROWS = 32768
_BATCH_BYTES = 4 * 1024 * 1024
_SAMPLE_BYTES = 256 * 1024
_MIN_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class SortedFile:
    """An Arrow file of records in key order. `samples` are the keys of every `step`th row."""

    path: Path
    size: int
    step: int
    samples: tuple[bytes, ...]
    last: bytes


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The rows of a file from `start` to before `stop`."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Share:
    """An interval of keys, with the places of its records."""

    interval: Interval
    stretches: tuple[FileSlice, ...]


def source_batches(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield a source's rows, some thousand at a time; rows of Work one by one."""
    if isinstance(source, Work):
        for at in range(source.rows.num_rows):
            yield from source.rows.slice(at, 1).to_batches()
        return
    batches = source.to_batches() if isinstance(source, pa.Table) else source
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)


def sliced(
    items: Iterable[T], size: int, size_of: Callable[[T], int] = attrgetter("nbytes")
) -> Iterator[list[T]]:
    """Yield items in lists of about `size`, measured by `size_of`."""
    held: list[T] = []
    held_size = 0
    for each in items:
        held.append(each)
        held_size += size_of(each)
        if held_size >= size:
            yield held
            held, held_size = [], 0
    if held:
        yield held


def sort_to_files(
    encode: Body, scratch: Path, batches: Iterable[pa.RecordBatch], sort_bytes: int = SORT_BYTES
) -> list[SortedFile]:
    """Write the output of `encode` to sorted files, each about `sort_bytes`."""
    tables = (
        pa.Table.from_batches(held, RECORD_SCHEMA) for held in sliced(encode(batches), sort_bytes)
    )
    return [_write(_sorted(table), scratch) for table in tables if table.num_rows]


def key_shares(files: Sequence[SortedFile], share_bytes: int) -> list[Share]:
    """Return records in key order, in shares of about `share_bytes`.

    Records of one key are in one share. A key with several samples has its own share.
    """
    starts = [b"", *_splitters(files, share_bytes)]
    intervals = [*(Interval(*ends) for ends in pairwise(starts)), Interval(starts[-1])]
    return [Share(each, _stretches(files, each)) for each in intervals] if files else []


def records_in_order(share: Share) -> Iterator[pa.RecordBatch]:
    """Yield the records of a share in key order. Only overlapping batches are sorted."""
    held: list[pa.RecordBatch] = []
    last = b""
    for first, batch in sorted(_inside(share), key=itemgetter(0)):
        if held and first > last:
            yield from _together(held)
            held = []
        held.append(batch)
        last = max(last, _key(batch, -1))
    if held:
        yield from _together(held)


def _sorted(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()
    keys = table.column("key")
    in_order = pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py()
    return table if in_order else table.sort_by("key")


def _write(table: pa.Table, scratch: Path) -> SortedFile:
    path = scratch / f"{uuid.uuid4().hex}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, min(_rows(table, _BATCH_BYTES), _BATCH_ROWS))
    step = min(_rows(table, _SAMPLE_BYTES), -(-table.num_rows // _MIN_SAMPLES))
    samples = tuple(_key(table, at) for at in range(0, table.num_rows, step))
    return SortedFile(path, table.nbytes, step, samples, _key(table, -1))


def _rows(table: pa.Table, size: int) -> int:
    """Return the number of a table's rows that have about `size` bytes."""
    rows: int = table.num_rows * size // table.nbytes
    return max(1, rows)


def _splitters(files: Sequence[SortedFile], share_bytes: int) -> Iterator[bytes]:
    """Yield the first keys of the shares after the first one."""
    samples = sorted(
        (sample, each.size // len(each.samples)) for each in files for sample in each.samples
    )
    held = 0
    for key, group in groupby(samples, itemgetter(0)):
        sizes = [size for _, size in group]
        is_repeated = len(sizes) > 1
        if held and (is_repeated or held >= share_bytes):
            yield key
            held = 0
        if is_repeated:
            yield successor(key)
        else:
            held += sizes[0]


def _stretches(files: Sequence[SortedFile], interval: Interval) -> tuple[FileSlice, ...]:
    found = []
    for each in files:
        # Rows after the previous sample may be in the interval.
        start = max(0, bisect_left(each.samples, interval.start) - 1)
        stop = len(each.samples)
        if interval.stop is not None:
            stop = bisect_left(each.samples, interval.stop)
        if start < stop and each.last >= interval.start:
            found.append(FileSlice(each.path, start * each.step, stop * each.step))
    return tuple(found)


def _inside(share: Share) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Yield the parts of batches in a share, with their first keys, without a copy."""
    for each in share.stretches:
        table = pa.ipc.open_file(pa.memory_map(str(each.path))).read_all()
        for batch in table.slice(each.start, each.stop - each.start).to_batches():
            inside = _within(batch, share.interval)
            if inside.num_rows:
                yield _key(inside, 0), inside


def _within(batch: pa.RecordBatch, interval: Interval) -> pa.RecordBatch:
    rows = range(batch.num_rows)
    start = bisect_left(rows, interval.start, key=partial(_key, batch))
    stop = len(rows)
    if interval.stop is not None:
        stop = bisect_left(rows, interval.stop, key=partial(_key, batch))
    return batch.slice(start, stop - start)


def _together(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield overlapping batches, sorted by their first keys, in key order."""
    if len(batches) == 1 or _key(batches[0], 0) == max(_key(each, -1) for each in batches):
        yield from batches
    else:
        yield from _sorted(pa.Table.from_batches(batches)).to_batches(_BATCH_ROWS)


def _key(rows: pa.RecordBatch | pa.Table, at: int) -> bytes:
    key: bytes = rows.column("key")[at].as_py()
    return key
