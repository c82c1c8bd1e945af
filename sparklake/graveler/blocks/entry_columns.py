"""Entries in columns. Unusual ones, such as with user metadata, are decoded one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import CorruptFileError
from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import gather, joined, sha256_each, varint_array, varints_at
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.buffers import Bytes, Mask, Positions, binary_array, mask_of, offsets_of
from sparklake.graveler.commits import hash_string
from sparklake.graveler.entries import NO_METADATA, AddressType, Entry, entry_identity, record_entry
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.keys import key_path
from sparklake.graveler.times import (
    FIRST_MICROSECOND,
    FIRST_SECOND,
    LAST_MICROSECOND,
    LAST_SECOND,
    MICROSECOND,
    SECOND,
    SECOND_MICROS,
)

_ADDRESS, _MTIME, _SIZE, _CHECKSUM = 0x0A, 0x12, 0x18, 0x22
_ADDRESS_TYPE, _CONTENT_TYPE = 0x30, 0x3A
_SECONDS, _NANOS = 0x08, 0x10
_INT_MARK, _STRING_MARK = b"\x02\x08", b"\x01"
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class EntryColumns:
    """The entries of records. `size` is in bytes.

    The modification time is unix `seconds` plus `nanos`, as in a record: 64 bits of nanoseconds
    would end in 2262. `metadata` is None if no entry has any.
    """

    address: pa.StringArray
    size: Positions
    checksum: pa.StringArray
    seconds: Positions
    nanos: Positions
    content_type: pa.StringArray
    relative: Mask
    metadata: pa.MapArray | None = None

    def shown_mtimes(self) -> Positions:
        """Return the times in unix microseconds, within the years 1 to 9999."""
        seconds = self.seconds
        # Clipping costs ten times as much as the two bounds.
        if not len(seconds) or (
            seconds.min() >= FIRST_SECOND + _SLACK and seconds.max() <= LAST_SECOND - _SLACK
        ):
            return seconds * SECOND_MICROS + self.nanos // MICROSECOND
        seconds = np.clip(seconds, FIRST_SECOND - _SLACK, LAST_SECOND + _SLACK)
        micros = seconds * SECOND_MICROS + self.nanos // MICROSECOND
        clipped: Positions = np.clip(micros, FIRST_MICROSECOND, LAST_MICROSECOND, out=micros)
        return clipped


_SLACK = 10
"""Seconds: more than 32 bits of nanoseconds.

These may be negative in damaged records.
"""


def decode_entries(block: Block) -> EntryColumns:
    try:
        return _decoded(block)
    except (IndexError, pa.ArrowInvalid):
        # The damaged row raises an error of its own.
        for record in block.records():
            record_entry(record)
        raise CorruptFileError("records contain invalid object entries") from None


ObjectColumns: TypeAlias = "tuple[list[pa.StringArray], list[Positions], pa.MapArray | None]"
"""Objects: path, checksum, full address and content type; size and the modification time in unix
microseconds; user metadata, if any."""


@kernels.defines(kernels.object_columns)
def object_columns(block: Block, storage_namespace: str) -> ObjectColumns:
    entries = decode_entries(block)
    inside = pc.binary_join_element_wise(storage_namespace, entries.address, "/")
    relative = entries.relative
    address = inside if relative.all() else pc.if_else(pa.array(relative), inside, entries.address)
    texts = [paths_of(block.key_array()), entries.checksum, address, entries.content_type]
    return texts, [entries.size, entries.shown_mtimes()], entries.metadata


def paths_of(keys: pa.BinaryArray) -> pa.StringArray:
    """Return keys as paths. They must be UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        for key in keys.to_pylist():
            key_path(key)
        raise


def _decoded(block: Block) -> EntryColumns:
    texts, (size, seconds, nanos, kind), odd = _fields_of(block.encoded)
    others = [record_entry(record) for record in block.take(odd).records()]
    address, checksum, content_type = (
        _patched(column, odd, [getattr(each, name) for each in others])
        for column, name in zip(texts, ("address", "checksum", "content_type"), strict=True)
    )
    if len(odd):
        size[odd] = [each.size for each in others]
        # More than a second of nanoseconds may overflow 64 bits.
        seconds[odd] = [min(max(each.mtime // SECOND, _INT64.min), _INT64.max) for each in others]
        nanos[odd] = [each.mtime % SECOND for each in others]
        kind[odd] = [each.address_type for each in others]
    relative = kind == AddressType.RELATIVE
    unsaid = kind == AddressType.BY_PREFIX_DEPRECATED
    if unsaid.any():
        relative |= unsaid & ~mask_of(pc.match_substring(address, "://"))
    metadata = _metadata(len(block), odd, others)
    return EntryColumns(
        address=address,
        size=size,
        checksum=checksum,
        seconds=seconds,
        nanos=nanos,
        content_type=content_type,
        relative=relative,
        metadata=metadata,
    )


@kernels.defines(kernels.entry_fields)
def _fields_of(records: EncodedRecords) -> tuple[list[pa.BinaryArray], list[Positions], Positions]:
    """Return the fields of entries, and the rows with unusual fields.

    The strings are address, checksum and content type, empty in unusual rows. The numbers are size,
    seconds, nanoseconds and address type.
    """
    reader = _Reader(records)
    address = reader.text(_ADDRESS)
    seconds, nanos = reader.timestamp()
    size = reader.number(_SIZE)
    checksum = reader.text(_CHECKSUM)
    kind = reader.number(_ADDRESS_TYPE)
    content_type = reader.text(_CONTENT_TYPE)
    odd = np.flatnonzero((reader.at != reader.end) | (kind > AddressType.FULL))
    texts = []
    for starts, sizes in (address, checksum, content_type):
        starts[odd], sizes[odd] = reader.begin[odd], 0
        texts.append(gather(records.data, starts, sizes))
    return texts, [size, seconds, nanos, kind], odd


class _Reader:
    """A vectorized reader of entries, field by field."""

    def __init__(self, records: EncodedRecords) -> None:
        self._data: Bytes = records.data
        sizes, at = varints_at(self._data, records.value_starts)
        sizes, at = varints_at(self._data, at + (sizes >> 1))
        self.begin: Positions = at
        self.at: Positions = at.copy()
        self.end: Positions = at + (sizes >> 1)
        if (self.end + RECORD_ID_BYTES != records.value_ends).any():
            raise IndexError

    def number(self, tag: int) -> Positions:
        """Return a number field; 0 where it is omitted."""
        rows = self._rows(tag)
        values = np.zeros(len(self.at), np.int64)
        values[rows], self.at[rows] = varints_at(self._data, self.at[rows] + 1)
        return values

    def text(self, tag: int) -> tuple[Positions, Positions]:
        """Return the start and the length of a bytes field; length 0 where it is omitted."""
        rows = self._rows(tag)
        lengths = np.zeros(len(self.at), np.int64)
        starts = self.at.copy()
        lengths[rows], starts[rows] = varints_at(self._data, self.at[rows] + 1)
        self.at = starts + lengths
        if (self.at > self.end).any() or (lengths < 0).any():
            raise IndexError
        return starts, lengths

    def timestamp(self) -> tuple[Positions, Positions]:
        starts, lengths = self.text(_MTIME)
        inside = object.__new__(_Reader)
        inside._data, inside.at, inside.end = self._data, starts, starts + lengths
        # Protobuf reads 32 bits of the nanoseconds.
        seconds, nanos = inside.number(_SECONDS), inside.number(_NANOS).astype(np.int32)
        if (inside.at != inside.end).any():
            raise IndexError
        return seconds, nanos.astype(np.int64)

    def _rows(self, tag: int) -> Any:
        """Return the rows with a tag in their next field; a slice for all rows."""
        matches = (self._data[self.at] == tag) & (self.at < self.end)
        return slice(None) if matches.all() else np.flatnonzero(matches)


def _patched(fast: pa.BinaryArray, odd: Positions, texts: list[str]) -> pa.StringArray:
    column = fast.cast(pa.string())
    if not len(odd):
        return column
    mask = np.zeros(len(fast), bool)
    mask[odd] = True
    return pc.replace_with_mask(column, pa.array(mask), pa.array(texts, pa.string()))


def _metadata(count: int, odd: Positions, others: list[Entry]) -> pa.MapArray | None:
    if not any(each.metadata for each in others):
        return None
    counts = np.zeros(count + 1, np.int32)
    counts[odd + 1] = [len(each.metadata) for each in others]
    items = [item for each in others for item in each.metadata.items()]
    return pa.MapArray.from_arrays(
        pa.array(np.cumsum(counts, dtype=np.int32)),
        pa.array([key for key, _ in items], pa.string()),
        pa.array([value for _, value in items], pa.string()),
    )


def entry_identities(entries: EntryColumns) -> pa.BinaryArray:
    """Compute the identities of entries, as `entry_identity` does."""
    identities = sha256_each(_identity_preimages(entries))
    if entries.metadata is None:
        return identities
    labels = entries.metadata.to_pylist()
    rows = [at for at, each in enumerate(labels) if each]
    some = pa.array(rows, pa.int64())
    columns = (entries.size[rows].tolist(), entries.checksum.take(some).to_pylist())
    kinds = entries.content_type.take(some).to_pylist()
    exact = [
        entry_identity(Entry("", size, checksum, 0, dict(labels[at]), kind))
        for at, size, checksum, kind in zip(rows, *columns, kinds, strict=True)
    ]
    mask = np.zeros(len(labels), bool)
    mask[rows] = True
    return pc.replace_with_mask(identities, pa.array(mask), pa.array(exact, pa.binary()))


@kernels.defines(kernels.encode_entries)
def encode_entries(keys: pa.BinaryArray, entries: EntryColumns) -> pa.BinaryArray:
    """Return the stored values of entries without metadata, modified after 1970.

    `keys` must be valid. No address, checksum or content type may exceed a record's limits.
    """
    data = joined(
        _field(_ADDRESS, entries.address.cast(pa.binary())),
        _field(_MTIME, joined(_number(_SECONDS, entries.seconds), _number(_NANOS, entries.nanos))),
        _number(_SIZE, entries.size),
        _field(_CHECKSUM, entries.checksum.cast(pa.binary())),
        _number(_ADDRESS_TYPE, np.where(entries.relative, AddressType.RELATIVE, AddressType.FULL)),
        _field(_CONTENT_TYPE, entries.content_type.cast(pa.binary())),
    )
    identities = sha256_each(_identity_preimages(entries))
    record_ids = sha256_each(joined(sha256_each(keys), sha256_each(identities)))
    # Lengths are zigzag varints, which double the number.
    lengths = varint_array(2 * np.diff(offsets_of(data)).astype(np.int64))
    identity_size = bytes([2 * RECORD_ID_BYTES])
    return joined(identity_size, identities, lengths, data, record_ids)


def _identity_preimages(entries: EntryColumns) -> pa.BinaryArray:
    checksums = entries.checksum.cast(pa.binary())
    kinds = entries.content_type.dictionary_encode()
    hashes = [hash_string(kind) if kind else b"" for kind in kinds.dictionary.to_pylist()]
    return joined(
        _INT_MARK,
        _int64s(entries.size),
        _STRING_MARK + _INT_MARK,
        _int64s(np.diff(offsets_of(checksums))),
        checksums,
        NO_METADATA,
        pa.array(hashes, pa.binary()).take(kinds.indices),
    )


def _int64s(values: Positions) -> pa.BinaryArray:
    return binary_array(np.arange(len(values) + 1) * 8, values.astype(">i8"))


def _number(tag: int, values: Positions) -> pa.BinaryArray:
    """Encode a number field, omitted for 0."""
    return _unless_empty(values != 0, joined(bytes([tag]), varint_array(values)))


def _field(tag: int, values: pa.BinaryArray) -> pa.BinaryArray:
    """Encode a bytes field, omitted if empty."""
    lengths = np.diff(offsets_of(values)).astype(np.int64)
    return _unless_empty(lengths > 0, joined(bytes([tag]), varint_array(lengths), values))


def _unless_empty(filled: Mask, field: pa.BinaryArray) -> pa.BinaryArray:
    return field if filled.all() else pc.if_else(pa.array(filled), field, b"")
