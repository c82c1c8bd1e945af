"""The data of the comparison: entries and change sets that any engine can make anew from numbers.

Entry i in version v, and the change sets, are those of the peer's program, so that both sides work
on equal contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from itertools import count as _count
from itertools import islice

import pyarrow as pa

_MASK = (1 << 64) - 1
_BATCH = 10_000
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.timestamp("us", tz="UTC")),
        ("address", pa.string()),
        ("deleted", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Change:
    """Is one change: `kind` is del, add or put, of the entry `index` in a version."""

    index: int
    kind: str
    version: int

    @property
    def path(self) -> str:
        return key(self.index) + (".new" if self.kind == "add" else "")


def key(index: int) -> str:
    return f"data/part-{index // 10000:04d}/obj-{index:012d}.parquet"


def entries(count: int) -> Iterator[pa.RecordBatch]:
    """Yields the base: entries 0 to count - 1 in version 0, in key order."""
    for start in range(0, count, _BATCH):
        stop = min(start + _BATCH, count)
        yield _batch((key(index), index, 0, False) for index in range(start, stop))


def change_rows(changes: list[Change]) -> pa.Table:
    """Returns changes as rows to stage."""
    rows = ((each.path, each.index, each.version, each.kind == "del") for each in changes)
    return pa.Table.from_batches([_batch(rows)])


def _batch(rows: Iterator[tuple[str, int, int, bool]]) -> pa.RecordBatch:
    columns = zip(*(_row(*row) for row in rows), strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def _row(path: str, i: int, v: int, deleted: bool) -> tuple[str, int, str, int, str, bool]:
    size = (i * 2654435761 + v * 97) % 1000000007
    # The peer has nanoseconds; no identity depends on the time.
    micros = (1700000000 + i // 100 + v) * 1_000_000 + i * 1000003 % 1000000
    address = f"data/{_hex(f'part-{i // 10000}')}/{_hex(f'addr-{i}-{v}')}"
    return path, size, md5(b"etag-%d-%d" % (i, v)).hexdigest(), micros, address, deleted


def _hex(text: str) -> str:
    return md5(text.encode()).hexdigest()[:20]


def changes(count: int, d: int, mode: str) -> list[Change]:
    """Returns the change set of commit and diff, and of a merge's source, in key order."""
    chosen = _random(count, 1, 1) if mode == "random" else _cluster(count, 1, 0)
    return _in_key_order(islice(chosen, d))


def merge_sides(count: int, d: int, mode: str) -> tuple[list[Change], list[Change]]:
    """Returns the changes of source and of dest, without a key in common."""
    source = changes(count, d, mode)
    taken = {each.index for each in source}
    if mode == "random":
        dest = (each for each in _random(count, 2, 2) if each.index not in taken)
    else:
        dest = _cluster(count, 2, count // 3)
    return source, _in_key_order(islice(dest, d))


def _random(count: int, seed: int, version: int) -> Iterator[Change]:
    seen: set[int] = set()
    for k in _count(0):
        x = _splitmix64((seed << 32) + k)
        index = x % count
        if index not in seen:
            seen.add(index)
            yield Change(index, _kind(x), version)


def _cluster(count: int, version: int, shift: int) -> Iterator[Change]:
    for index in _count(count // 3):
        yield Change(index + shift, _kind(_splitmix64((1 << 32) + index)), version)


def _kind(x: int) -> str:
    return {0: "del", 1: "add"}.get((x >> 56) % 10, "put")


def _splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _in_key_order(some: Iterator[Change]) -> list[Change]:
    return sorted(some, key=lambda each: each.path)
