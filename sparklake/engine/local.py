"""Runs bodies in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge as merge_sorted
from itertools import islice
from pathlib import Path

import pyarrow as pa

from sparklake.config import disk_root
from sparklake.engine.base import Body, Source
from sparklake.graveler.records import Record
from sparklake.scratch import scratch_folder
from sparklake.udfs.objects import record_batch
from sparklake.udfs.writing import RECORD_SCHEMA

SORT_BYTES = 128 * 1024 * 1024
_BATCH_ROWS = 8192


class LocalRunner:
    """Runs one task after the other in this process."""

    name = "local"

    def collect(self, body: Body, work: pa.Table) -> list[pa.RecordBatch]:
        """Runs a body over rows of work."""
        return list(self.stream(body, work))

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work as its results are asked for."""
        if work.num_rows:
            yield from body(work.to_batches())

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Runs `body` over the sorted output of `encode`, spilling to disk what is large."""
        with scratch_folder(disk_root()) as scratch:
            return list(body(sort_records(encode(_batches(source)), scratch)))


def _batches(source: Source) -> Iterable[pa.RecordBatch]:
    yield from source.to_batches() if isinstance(source, pa.Table) else source


def sort_records(
    batches: Iterable[pa.RecordBatch], scratch: Path, sort_bytes: int = SORT_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yields rows of RECORD_SCHEMA in key order; holds about `sort_bytes` at a time."""
    spilled: list[Path] = []
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= sort_bytes:
            spilled.append(_spill(_sorted(held), scratch / f"sorted-{len(spilled)}.arrow"))
            held, size = [], 0
    last = _sorted(held)
    if not spilled:
        yield from last.to_batches(max_chunksize=_BATCH_ROWS)
        return
    yield from _merged([*map(_read_spilled, spilled), last.to_batches(_BATCH_ROWS)])


def _sorted(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, RECORD_SCHEMA).sort_by("key")


def _spill(table: pa.Table, path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH_ROWS)
    return path


def _read_spilled(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for at in range(reader.num_record_batches):
            yield reader.get_batch(at)


def _merged(runs: Iterable[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    records = merge_sorted(*map(_rows, runs))
    while chunk := list(islice(records, _BATCH_ROWS)):
        yield record_batch(chunk)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        keys, values = (column.to_pylist() for column in batch.columns)
        yield from zip(keys, values, strict=True)
