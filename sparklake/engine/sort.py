"""External sort of runs, in slices and shares of about SORT_BYTES in memory."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.engine.base import Body, Source, Work
from sparklake.errors import StoreError
from sparklake.graveler.chunks import sliced
from sparklake.graveler.keys import Interval, successor
from sparklake.rows.records import RECORD_SCHEMA

SORT_BYTES = 32 * 1024 * 1024
"""The bytes of records to sort in memory at a time."""

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
    path: Path
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Share:
    """An interval of keys, with the locations of its records."""

    interval: Interval
    stretches: tuple[FileSlice, ...]


def source_batches(source: Source, batch_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield a source's rows in small batches, but rows of Work one by one."""
    if isinstance(source, Work):
        for at in range(source.rows.num_rows):
            yield from source.rows.slice(at, 1).to_batches()
        return
    batches = source.to_batches() if isinstance(source, pa.Table) else source
    for batch in batches:
        for start in range(0, batch.num_rows, batch_rows):
            yield batch.slice(start, batch_rows)


def slices_in_order(source: Source, rows: int) -> list[pa.Table]:
    """Return slices of a table with ascending paths; none of any other source."""
    if not isinstance(source, pa.Table) or "path" not in source.schema.names:
        return []
    paths = source.column("path")
    if paths.null_count or paths.type not in (pa.string(), pa.large_string()):
        return []
    if not pc.all(pc.less(paths[:-1], paths[1:]), min_count=0).as_py():
        return []
    return [source.slice(start, rows) for start in range(0, source.num_rows, rows)]


def sort_to_files(
    encode: Body, scratch: Path, batches: Iterable[pa.RecordBatch], sort_bytes: int = SORT_BYTES
) -> list[SortedFile]:
    """Write the output of `encode` to sorted files, each about `sort_bytes`."""
    groups = sliced(encode(batches), sort_bytes, attrgetter("nbytes"))
    tables = (pa.Table.from_batches(group, RECORD_SCHEMA) for group in groups)
    return [_write(_sorted(table), scratch) for table in tables if table.num_rows]


def key_shares(files: Sequence[SortedFile], share_bytes: int) -> list[Share]:
    """Split records into shares of about `share_bytes`. Frequent keys have their own share."""
    starts = [b"", *_splitters(files, share_bytes)]
    intervals = [*(Interval(*ends) for ends in pairwise(starts)), Interval(starts[-1])]
    return [Share(each, _stretches(files, each)) for each in intervals] if files else []


def records_in_order(share: Share) -> Iterator[pa.RecordBatch]:
    """Yield the records of a share in key order. Only overlapping batches are sorted."""
    group: list[pa.RecordBatch] = []
    last = b""
    for first, batch in sorted(_inside(share), key=itemgetter(0)):
        if group and first > last:
            yield from _merged(group)
            group = []
        group.append(batch)
        last = max(last, _key(batch, -1))
    if group:
        yield from _merged(group)


def _sorted(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()
    keys = table.column("key")
    in_order = pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py()
    return table if in_order else table.sort_by("key")


def _write(table: pa.Table, scratch: Path) -> SortedFile:
    path = scratch / f"{uuid.uuid4().hex}.arrow"
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, min(_rows(table, _BATCH_BYTES), _BATCH_ROWS))
    except OSError as error:
        raise StoreError(
            f"sorting failed in the temporary folder {scratch}: {error}. Free space there, or set "
            "SPARKLAKE_SCRATCH to a folder on a different disk"
        ) from error
    step = min(_rows(table, _SAMPLE_BYTES), -(-table.num_rows // _MIN_SAMPLES))
    samples = tuple(_key(table, at) for at in range(0, table.num_rows, step))
    return SortedFile(path, table.nbytes, step, samples, _key(table, -1))


def _rows(table: pa.Table, size: int) -> int:
    rows: int = table.num_rows * size // table.nbytes
    return max(1, rows)


def _splitters(files: Sequence[SortedFile], share_bytes: int) -> Iterator[bytes]:
    """Yield the first keys of the shares after the first one."""
    samples = sorted(
        (sample, each.size // len(each.samples)) for each in files for sample in each.samples
    )
    share_size = 0
    for key, group in groupby(samples, itemgetter(0)):
        sizes = [size for _, size in group]
        is_repeated = len(sizes) > 1
        if share_size and (is_repeated or share_size >= share_bytes):
            yield key
            share_size = 0
        if is_repeated:
            yield successor(key)
        else:
            share_size += sizes[0]


def _stretches(files: Sequence[SortedFile], interval: Interval) -> tuple[FileSlice, ...]:
    slices = []
    for each in files:
        start, stop = _positions(each.samples, interval)
        # Rows after the previous sample may be in the interval.
        start = max(0, start - 1)
        if start < stop and each.last >= interval.start:
            slices.append(FileSlice(each.path, start * each.step, stop * each.step))
    return tuple(slices)


def _positions(
    keys: Sequence[Any], interval: Interval, key: Callable[[Any], bytes] | None = None
) -> tuple[int, int]:
    """Return the first position in an interval and the first one after it."""
    stop = len(keys) if interval.stop is None else bisect_left(keys, interval.stop, key=key)
    return bisect_left(keys, interval.start, key=key), stop


def _inside(share: Share) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    for each in share.stretches:
        table = pa.ipc.open_file(pa.memory_map(str(each.path))).read_all()
        for batch in table.slice(each.start, each.stop - each.start).to_batches():
            start, stop = _positions(range(batch.num_rows), share.interval, partial(_key, batch))
            if start < stop:
                yield _key(batch, start), batch.slice(start, stop - start)


def _merged(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge overlapping batches, given in order of their first keys."""
    if len(batches) == 1 or _key(batches[0], 0) == max(_key(each, -1) for each in batches):
        yield from batches
    else:
        yield from _sorted(pa.Table.from_batches(batches)).to_batches(_BATCH_ROWS)


def _key(rows: pa.RecordBatch | pa.Table, at: int) -> bytes:
    key: bytes = rows.column("key")[at].as_py()
    return key
