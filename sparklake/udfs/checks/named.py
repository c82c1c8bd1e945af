"""Referenced objects as rows of hashes, sizes and addresses, to compare with a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler import kernels
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import sha256_each
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.buffers import Positions, data_of
from sparklake.layout import DATA_FOLDER
from sparklake.namespace.addresses import OwnNamespace

NAMED_SCHEMA = required_schema(
    high=pa.uint64(),
    low=pa.uint64(),
    size=pa.int64(),
    table=pa.uint64(),
    external=pa.bool_(),
    address=pa.string(),
    checksum=pa.string(),
    path=pa.string(),
)
"""`high` and `low` are the hash of the address. `table` is the tag of its range or layer.

`external` objects are not below `data/`. `path` is "" for records of ranges, which are read again
if the object has a fault.
"""

_DIGEST_WORDS = 4


def range_tag(range_id: str) -> int:
    """Return the first 64 bits of a range id."""
    return int(range_id[:16], 16)


def address_hashes(addresses: pa.Array) -> tuple[Any, Any]:
    """Return 128-bit hashes as two columns of 64 bits."""
    digests = data_of(sha256_each(addresses.cast(pa.binary())))
    words = np.ascontiguousarray(digests[: len(addresses) * 32]).view(np.uint64)
    words = words.reshape(len(addresses), _DIGEST_WORDS)
    return words[:, 0].copy(), words[:, 1].copy()


def bucket_numbers(high: Any, buckets: int) -> Any:
    return (high % np.uint64(buckets)).astype(np.int64)


_Columns = tuple[pa.StringArray, pa.StringArray, Positions, Sequence[Any]]


def _compiled_columns(block: Block, own: OwnNamespace) -> _Columns:
    return kernels.named_objects(block, own.uri)


@kernels.defines(_compiled_columns)
def named_columns(block: Block, own: OwnNamespace) -> _Columns:
    """Return addresses, checksums, sizes and address hashes."""
    entries = decode_entries(block)
    addresses = own.full_addresses(entries)
    return addresses, entries.checksum, entries.size, address_hashes(addresses)


@dataclass
class NamedObjects:
    """The objects referenced by the records of one task."""

    namespace: str
    buckets: int
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._own = OwnNamespace(self.namespace)

    def add(self, block: Block, table: int, *, with_paths: bool = False) -> None:
        """Add the objects of records, without tombstones. `table` is the tag of their range."""
        removed = block.tombstones
        live = block.take(np.flatnonzero(~removed)) if removed.any() else block
        if not len(live):
            return
        addresses, checksums, sizes, hashes = named_columns(live, self._own)
        external = pc.invert(pc.starts_with(addresses, f"{self.namespace}/{DATA_FOLDER}"))
        paths = _paths(live) if with_paths else pa.repeat(pa.scalar(""), len(live))
        columns = [
            *map(pa.array, hashes),
            pa.array(sizes),
            pa.array(np.full(len(live), table, np.uint64)),
            external,
            addresses,
            checksums,
            paths,
        ]
        self._batches.append(pa.record_batch(columns, schema=NAMED_SCHEMA))

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, NAMED_SCHEMA)

    def buckets_of(self, rows: pa.Table) -> Any:
        """Return the bucket of each row. External objects of one folder share a bucket."""
        numbers = bucket_numbers(rows.column("high").to_numpy(), self.buckets)
        external = rows.column("external").to_numpy()
        if external.any():
            addresses = rows.column("address").filter(pa.array(external)).combine_chunks()
            folders = pc.replace_substring_regex(addresses, "/[^/]*$", "")
            distinct = folders.dictionary_encode()
            high, _ = address_hashes(distinct.dictionary)
            numbers[external] = bucket_numbers(high, self.buckets)[distinct.indices.to_numpy()]
        return numbers


def _paths(block: Block) -> pa.Array:
    keys = block.key_array()
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode(errors="replace") for each in keys.to_pylist()])
