"""Adapters from columns to the buffers of compiled kernels, and back.

Each function takes the arguments of the definition that names it, and raises Declined where the
definition must run. The kernels check all bounds, and work without the interpreter lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparklake.graveler.blocks.buffers import (
    Bytes,
    Ids,
    Mask,
    Positions,
    binary_array,
    data_of,
    offsets_of,
)
from sparklake.graveler.entries import NO_METADATA
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.kernels import Declined, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparklake.graveler.blocks.block import Block
    from sparklake.graveler.blocks.columns import Keys
    from sparklake.graveler.blocks.edit import LeafEdit
    from sparklake.graveler.blocks.encoded import EncodedRecords
    from sparklake.graveler.blocks.entry_columns import EntryColumns
    from sparklake.graveler.blocks.packed import PackedBlocks


# --- columns of bytes -----------------------------------------------------------------------------


def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    """Return the SHA-256 of each item."""
    digests = library.sha256_each(*column(items))
    return binary_array(np.arange(0, len(digests) + 1, RECORD_ID_BYTES), digests)


def gather(data: Bytes, starts: Positions, lengths: Positions) -> pa.BinaryArray:
    """Return a copy of slices of `data` as an array."""
    return array_of(library.gather(data, _numbers(starts), _numbers(lengths)))


def take(items: pa.BinaryArray, rows: Positions) -> pa.BinaryArray:
    """Return the items at some positions."""
    return array_of(library.take(*column(items), _numbers(rows)))


def search(keys: Keys, wanted: Keys) -> tuple[Positions, Mask]:
    """Return the insertion position of each wanted key, and whether it exists."""
    found: tuple[Positions, Mask] = library.search(key_columns(keys), key_columns(wanted))
    return found


def paired(left: Keys, right: Keys) -> tuple[Positions, Positions]:
    """Return the rows of two sides in key order."""
    rows: tuple[Positions, Positions] = library.paired(key_columns(left), key_columns(right))
    return rows


# --- ids ------------------------------------------------------------------------------------------


def unequal_rows(left: Ids, right: Ids) -> tuple[Positions, Positions]:
    """Return the positions of the ids that only one side has."""
    rows: tuple[Positions, Positions] = library.unequal(id_bytes(left), id_bytes(right))
    return rows


def found_ids(ids: Ids, wanted: Ids) -> Positions:
    """Return the position of each wanted id among some ids, or -1."""
    rows: Positions = library.found_ids(id_bytes(ids), id_bytes(wanted))
    return rows


def range_ends(ids: Ids, range_records: int) -> list[int]:
    """Return the positions after the records whose ids end a range."""
    ends: list[int] = library.range_ends(id_bytes(ids), range_records).tolist()
    return ends


# --- records --------------------------------------------------------------------------------------


def encoded_entries(keys: pa.BinaryArray, stored: pa.BinaryArray) -> tuple[pa.BinaryArray, None]:
    """Return the entries of keys and their stored values."""
    return array_of(library.encode_records(*column(keys), *column(stored))), None


def entry_lengths(entries: pa.BinaryArray) -> tuple[Positions, Positions]:
    """Return the bytes before the key, and the key's bytes, of each entry."""
    lengths: tuple[Positions, Positions] = library.shapes(*column(entries))
    return lengths


def entry_keys(records: EncodedRecords) -> pa.BinaryArray:
    """Return a copy of the keys of records."""
    return array_of(library.keys(*column(records.entries)))


def edited_leaves(edit: LeafEdit) -> tuple[pa.BinaryArray, Ids, Positions]:
    """Return the records that replace the touched leaves of a block."""
    block, added = edit.block, edit.added
    entries, ids, counts = library.edit(
        (_numbers(block.starts), edit.opened, _numbers(edit.shifts)),
        edit.dropped,
        _numbers(edit.places),
        [column(part.entries) for part in edit.parts],
        id_bytes(block.ids),
        (*column(added.encoded.entries), id_bytes(added.ids)),
    )
    return array_of(entries), ids.view(np.uint64).reshape(-1, 4), counts


def unpacked(parts: Sequence[tuple[PackedBlocks, Sequence[int]]], last_ids: Ids) -> pa.BinaryArray:
    """Return the entries of data blocks, each file's or stretch's bytes read at once."""
    return array_of(library.open_blocks(*_stretches(parts), id_bytes(last_ids)))


def _stretches(
    parts: Sequence[tuple[PackedBlocks, Sequence[int]]],
) -> tuple[list[Bytes], Positions]:
    """Return the bytes of data blocks, and the place of each: its number, and its columns."""
    files: list[Bytes] = []
    places: list[Positions] = []
    for unit, numbers in parts:
        for content, rows in unit.stretches(numbers):
            file = np.full(len(rows), len(files))
            files.append(np.frombuffer(content, np.uint8))
            places.append(np.column_stack((file, rows)))
    return files, _numbers(np.concatenate(places).reshape(-1))


# --- object entries -------------------------------------------------------------------------------


def entry_fields(
    records: EncodedRecords,
) -> tuple[list[pa.BinaryArray], list[Positions], Positions]:
    """Return the texts, the numbers and the unusual rows of object entries."""
    texts, numbers, odd = library.decode_entries(*column(records.entries))
    return [array_of(each) for each in texts], numbers, odd


def object_columns(
    block: Block, storage_namespace: str
) -> tuple[list[pa.StringArray], list[Positions], None]:
    """Return the objects in records. Data blocks that are not open are not opened, but read."""
    prefix = f"{storage_namespace}/".encode()
    wanted = block.packed_parts()
    if wanted is None:
        texts, numbers = library.list_entries(*column(block.encoded.entries), prefix)
    else:
        parts, last_ids = wanted
        texts, numbers = library.list_blocks(*_stretches(parts), id_bytes(last_ids), prefix)
    return [text_of(each) for each in texts], numbers, None


def encode_entries(keys: pa.BinaryArray, entries: EntryColumns) -> pa.BinaryArray:
    """Return the stored values of entries without metadata."""
    texts = (keys, entries.address, entries.checksum, entries.content_type)
    numbers = (entries.size, entries.seconds, entries.nanos)
    return array_of(
        library.encode_entries(
            [column(each) for each in texts],
            [_numbers(each) for each in numbers],
            np.ascontiguousarray(entries.relative, np.bool_),
            NO_METADATA,
        )
    )


def record_problem(block: Block, encoded: EncodedRecords) -> str:
    """Return "" for records without a problem."""
    library.verify_records(*column(encoded.entries), id_bytes(block.ids), NO_METADATA)
    return ""


def named_objects(
    block: Block, storage_namespace: str
) -> tuple[pa.StringArray, pa.StringArray, Positions, list[Any]]:
    """Return the addresses, checksums, sizes and hashes of objects below a namespace."""
    prefix = f"{storage_namespace}/".encode()
    texts, sizes, hashes = library.named_objects(*column(block.encoded.entries), prefix)
    address, checksum = map(text_of, texts)
    return address, checksum, sizes, hashes


# --- paths and addresses --------------------------------------------------------------------------


def plain_keys(texts: pa.StringArray) -> Mask:
    """Return which texts are plain keys."""
    plain: Mask = library.plain_keys(*column(texts))
    return plain


def plain_addresses(addresses: pa.StringArray, storage_namespace: str) -> Mask:
    """Return which addresses are plain keys, or plain URIs outside a namespace."""
    plain: Mask = library.plain_addresses(*column(addresses), storage_namespace.encode())
    return plain


def plain_uris(addresses: pa.StringArray) -> Mask:
    """Return which addresses are plain URIs."""
    plain: Mask = library.plain_uris(*column(addresses))
    return plain


# --- buffers --------------------------------------------------------------------------------------


def column(items: Any) -> tuple[Bytes, Any]:
    """Return the bytes and the bounds of a column without nulls."""
    if not isinstance(items, (pa.BinaryArray, pa.StringArray)) or items.null_count:
        raise Declined
    return data_of(items), offsets_of(items)


def array_of(made: tuple[Any, Bytes]) -> pa.BinaryArray:
    """Return an array of the bounds and the bytes that a kernel made."""
    return binary_array(*made)


def text_of(made: tuple[Any, Bytes]) -> pa.StringArray:
    """Return an array of texts that a kernel has checked."""
    bounds, data = made
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.StringArray.from_buffers(len(bounds) - 1, buffers[1], buffers[2])


def id_bytes(ids: Ids) -> Bytes:
    """Return the bytes of record ids, one after the other."""
    return np.ascontiguousarray(ids).view(np.uint8).reshape(-1)


def key_columns(keys: Keys) -> tuple[Bytes, Positions, Positions]:
    """Return the bytes, the starts and the lengths of keys."""
    return keys.data, _numbers(keys.starts), _numbers(keys.lengths)


def _numbers(values: Any) -> Positions:
    return np.ascontiguousarray(values, np.int64)
