"""The data of the benchmarks: entries and change sets, computed from numbers.

Entry i in version v, and the change sets, are those of the peer's program, so that both sides work
on equal contents. Columns are computed as a whole. The base is written to disk and memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import md5
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CONTENT_TYPE = "application/octet-stream"
BATCH_ROWS = 1 << 16
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.timestamp("us", tz="UTC")),
        ("address", pa.string()),
    ]
)
STAGED_SCHEMA = SCHEMA.append(pa.field("deleted", pa.bool_()))

Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]


class Kind(IntEnum):
    """The kind of a change. The peer overwrites for every number above these."""

    DELETE = 0
    ADD = 1
    PUT = 2


@dataclass(frozen=True, slots=True)
class Changes:
    """A change set: entries by ascending index, and the kind of change of each."""

    index: Numbers
    kind: Numbers
    version: int

    def __len__(self) -> int:
        return len(self.index)

    @property
    def paths(self) -> list[str]:
        """The path that each change touches, in key order."""
        suffixes = {Kind.ADD: ".new"}
        pairs = zip(self.index.tolist(), self.kind.tolist(), strict=True)
        return [path(index) + suffixes.get(kind, "") for index, kind in pairs]

    @property
    def order(self) -> Numbers:
        """Numbers that order the paths of all change sets and entries: an entry's is 2i."""
        order: Numbers = self.index * 2 + (self.kind == Kind.ADD)
        return order

    def rows(self) -> pa.Table:
        """Return the changes as rows to stage."""
        columns = _columns(self.paths, self.index, self.version)
        return pa.table([*columns, pa.array(self.kind == Kind.DELETE)], schema=STAGED_SCHEMA)


def path(index: int) -> str:
    return f"data/part-{index // 10000:04d}/obj-{index:012d}.parquet"


# --- the base -------------------------------------------------------------------------------------


def write_base(file: Path, count: int) -> pa.Table:
    """Write the base to a file and return it memory-mapped."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for batch in entries(count):
            writer.write_batch(batch)
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def entries(count: int) -> Iterator[pa.RecordBatch]:
    """Yield the base: entries 0 to count - 1 in version 0, in key order."""
    for start in range(0, count, BATCH_ROWS):
        index = np.arange(start, min(start + BATCH_ROWS, count))
        columns = _columns(map(path, index.tolist()), index, 0)
        yield pa.record_batch(columns, schema=SCHEMA)


def random_paths(count: int, d: int, seed: int) -> list[str]:
    """Return the paths of d distinct entries, in random order."""
    return [path(index) for index in np.random.default_rng(seed).permutation(count)[:d].tolist()]


def _columns(paths: Iterable[str], index: Numbers, version: int) -> list[pa.Array]:
    numbers = index.tolist()
    # The peer has nanoseconds; no identity depends on the time.
    micros = (1_700_000_000 + index // 100 + version) * 1_000_000 + index * 1_000_003 % 1_000_000
    folders = {part: _hex(b"part-%d" % part) for part in np.unique(index // 10000).tolist()}
    values = (
        list(paths),
        (index * 2654435761 + version * 97) % 1000000007,
        [md5(b"etag-%d-%d" % (i, version)).hexdigest() for i in numbers],
        micros,
        [f"data/{folders[i // 10000]}/{_hex(b'addr-%d-%d' % (i, version))}" for i in numbers],
    )
    return [pa.array(each, field.type) for each, field in zip(values, SCHEMA, strict=True)]


def _hex(text: bytes) -> str:
    return md5(text).hexdigest()[:20]


# --- change sets ----------------------------------------------------------------------------------


def changes(count: int, d: int, mode: str, seed: int = 1) -> Changes:
    """Return the change set of commit and diff, and of a merge's source."""
    if mode == "random":
        return _random(count, d, seed, version=1)
    return _cluster(count // 3, d, seed, version=1)


def merge_sides(count: int, d: int, mode: str, seed: int = 1) -> tuple[Changes, Changes]:
    """Return the changes of source and of dest, which have no key in common."""
    source = changes(count, d, mode, seed)
    if mode == "random":
        return source, _random(count, d, seed + 1, version=2, taken=source.index)
    return source, Changes(source.index + count // 3, source.kind, version=2)


def _random(
    count: int, d: int, seed: int, version: int, taken: Sequence[int] | Numbers = ()
) -> Changes:
    """Return the first d distinct entries of a random stream, except those of `taken`."""
    if d + len(taken) > count:
        raise ValueError(f"{count} entries do not have {d} changes beside {len(taken)} others")
    drawn = 2 * (d + len(taken)) + 1024
    while True:
        x = _splitmix64(np.arange(drawn, dtype=np.uint64) + np.uint64(seed << 32))
        index = (x % np.uint64(count)).astype(np.int64)
        first = np.sort(np.unique(index, return_index=True)[1])
        first = first[~np.isin(index[first], taken)][:d]
        if len(first) == d:
            chosen = first[np.argsort(index[first])]
            return Changes(index[chosen], _kind(x[chosen]), version)
        drawn *= 2


def _cluster(start: int, d: int, seed: int, version: int) -> Changes:
    index = np.arange(start, start + d)
    x = _splitmix64(index.astype(np.uint64) + np.uint64(seed << 32))
    return Changes(index, _kind(x), version)


def _kind(x: Words) -> Numbers:
    tenths: Numbers = ((x >> np.uint64(56)) % np.uint64(10)).astype(np.int64)
    return np.minimum(tenths, Kind.PUT)


def _splitmix64(x: Words) -> Words:
    # Sums and products of arrays wrap at 64 bits, as they should.
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
