"""Forged tables: one wrong field of one structure, with all checksums and handles right again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.encoded import KEY_SUFFIX, SUFFIX_BYTES
from sparklake.graveler.entries import encode_entry, entry_identity, record_entry
from sparklake.graveler.ids import RECORD_ID_BYTES, file_id, read_varint, record_id, varint, zigzag
from sparklake.graveler.records import Record, decode_record, encode_record, plain_value
from sparklake.graveler.sstable.directory import DIRECTORY, BlockColumn, block_ends, directory_bytes
from sparklake.graveler.sstable.directory import Directory as Listed
from sparklake.graveler.sstable.layout import (
    FOOTER_BYTES,
    PROPERTIES,
    Handle,
    compressed,
    footer,
    handle_bytes,
    plain,
    small_block,
)
from sparklake.graveler.sstable.layout import _trailer as trailer_of
from sparklake.graveler.sstable.writer import FIXED_PROPERTIES

Items = list[tuple[bytes, bytes]]


class Forgery(NamedTuple):
    """A table file, its id by its directory, and the bounds and the number of its records."""

    id: str
    file: bytes
    first_key: bytes
    last_key: bytes
    size: int


def forged(records: Sequence[Record], part: str, chance: Random) -> Forgery:
    """Return the table of records with one wrong field in a part."""
    records = list(records)
    if part in RECORDS:
        RECORDS[part](records, chance)
    return _assembled(records, part, chance)


# --- values ---------------------------------------------------------------------------------------


def other_number(value: int, chance: Random, bits: int = 64) -> int:
    """Return another number of some bits."""
    near = [value - 1, value + 1, 2 * value, value + 2**31, value - 2**31]
    far = [0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    while True:
        other: int = chance.choice([*near, *far, chance.getrandbits(bits)]) % 2**bits
        if other != value:
            return other


def other_bytes(value: bytes, chance: Random) -> bytes:
    """Return other bytes: changed, shorter, longer or none."""
    way = chance.randrange(6)
    if way == 0 and value:
        at = chance.randrange(len(value))
        return value[:at] + bytes([value[at] ^ chance.randrange(1, 256)]) + value[at + 1 :]
    if way == 1 and value:
        return value[: chance.randrange(len(value))]
    if way == 2:
        return value + chance.randbytes(chance.choice([1, 3, 200]))
    if way == 3 and value:
        return b""
    return chance.choice([b"\0", b"\xff", b"\xff" * 12, chance.randbytes(8), b"k/0"]) + value[1:]


def change_list(items: list[Any], chance: Random) -> None:
    """Drop, repeat or exchange items."""
    at, other = chance.randrange(len(items)), chance.randrange(len(items))
    way = chance.randrange(3)
    if way == 0 and len(items) > 1:
        del items[at]
    elif way == 1:
        items.insert(other, items[at])
    else:
        items[at], items[other] = items[other], items[at]


# --- records --------------------------------------------------------------------------------------


def _change_message(records: list[Record], chance: Random) -> None:
    """Change a field of an entry or a range description. All ids stay right."""
    at = chance.randrange(len(records))
    decoded = decode_record(*records[at])
    data = other_message(decoded.data, chance)
    records[at] = (decoded.key, plain_value(decoded.identity, data) + decoded.id)


def _change_entry(records: list[Record], chance: Random) -> None:
    """Change an entry, and make its identity and the id of its record right again."""
    at = chance.randrange(len(records))
    decoded = decode_record(*records[at])
    try:
        entry = record_entry((decoded.key, plain_value(b"", other_message(decoded.data, chance))))
        entry = replace(entry, size=abs(entry.size))
        records[at] = encode_record(decoded.key, entry_identity(entry), encode_entry(entry))
    except (SparklakeError, ValueError, OverflowError):
        _change_message(records, chance)


def _change_stored(records: list[Record], chance: Random) -> None:
    """Change the lengths, the identity, the data or the id of a stored value."""
    at = chance.randrange(len(records))
    key, stored = records[at]
    decoded = decode_record(key, stored)
    fields = [
        zigzag(len(decoded.identity)),
        decoded.identity,
        zigzag(len(decoded.data)),
        decoded.data,
        bytes(decoded.id),
    ]
    which = chance.randrange(len(fields))
    if which in (0, 2):
        length = read_varint(fields[which], 0)[0]
        fields[which] = varint(other_number(length, chance))
    else:
        fields[which] = other_bytes(fields[which], chance)
    if chance.random() < 0.5:
        fields[4] = record_id(key, fields[1])
    if chance.random() < 0.3:
        fields[0], fields[2] = zigzag(len(fields[1])), zigzag(len(fields[3]))
    records[at] = (key, b"".join(fields))


def _change_key(records: list[Record], chance: Random) -> None:
    """Change a key, with the id of its record or without."""
    at = chance.randrange(len(records))
    decoded = decode_record(*records[at])
    key = other_bytes(decoded.key, chance)
    right = chance.random() < 0.7
    stored = plain_value(decoded.identity, decoded.data)
    records[at] = (key, stored + (record_id(key, decoded.identity) if right else decoded.id))
    if chance.random() < 0.5:
        records.sort()


def _change_order(records: list[Record], chance: Random) -> None:
    change_list(records, chance)


RECORDS: dict[str, Callable[[list[Record], Random], None]] = {
    "message": _change_message,
    "entry": _change_entry,
    "stored value": _change_stored,
    "key": _change_key,
    "records": _change_order,
}


def other_message(data: bytes, chance: Random) -> bytes:
    """Return a message of protobuf with one wrong field, or other bytes."""
    fields = _message_fields(data)
    way = chance.randrange(8)
    if way == 0 or not fields:
        return b"" if chance.random() < 0.5 else other_bytes(data, chance)
    at = chance.randrange(len(fields))
    tag, value = fields[at]
    if way == 1:
        change_list(fields, chance)
    elif way == 2:
        fields[at] = (other_number(tag, chance, 7), value)
    elif isinstance(value, int):
        fields[at] = (tag, other_number(value, chance))
    elif way == 3:
        fields[at] = (tag, other_message(value, chance))
    else:
        fields[at] = (tag, other_bytes(value, chance))
    return b"".join(
        varint(tag) + (varint(each) if isinstance(each, int) else varint(len(each)) + each)
        for tag, each in fields
    )


def _message_fields(data: bytes) -> list[tuple[int, Any]]:
    fields: list[tuple[int, Any]] = []
    at = 0
    try:
        while at < len(data):
            tag, at = read_varint(data, at)
            value, at = read_varint(data, at)
            if tag & 7 == 2:
                fields.append((tag, data[at : at + value]))
                at += value
            elif tag & 7 == 0:
                fields.append((tag, value))
            else:
                return []
    except IndexError:
        return []
    return fields


# --- files ----------------------------------------------------------------------------------------

FILES = ("data block", "compression", "directory", "index", "properties", "metaindex", "footer")


class _File:
    """A file under construction."""

    def __init__(self) -> None:
        self.body = bytearray()

    def add(self, body: bytes, trailer: bytes) -> Handle:
        handle = Handle(len(self.body), len(body))
        self.body += body + trailer
        return handle


def _assembled(records: list[Record], part: str, chance: Random) -> Forgery:
    ids = np.frombuffer(b"".join(_id_of(stored) for _, stored in records), np.uint64).reshape(-1, 4)
    stops = block_ends(ids).tolist()
    spans = list(zip([0, *stops[:-1]], stops, strict=True))
    contents = [
        small_block([(key + KEY_SUFFIX, stored) for key, stored in records[start:stop]])
        for start, stop in spans
    ]
    if part == "data block":
        at = chance.randrange(len(contents))
        contents[at] = _other_block(contents[at], chance)
    file, pack = _File(), chance.choice([compressed, plain])
    handles = [file.add(*pack(each)) for each in contents]
    if part == "compression":
        _change_compression(file, handles, chance)
    numbers = _numbers(records, spans, contents, handles)
    firsts = [records[start][0] for start, _ in spans]
    lasts = [records[stop - 1][0] for _, stop in spans]
    data_bytes = len(file.body)
    index = [
        (key + KEY_SUFFIX, handle_bytes(each)) for key, each in zip(lasts, handles, strict=True)
    ]
    if part == "index":
        _change_items(index, chance)
    index_handle = file.add(*compressed(_small(index, part, chance)))
    directory = directory_bytes(Listed(ids, numbers, firsts, lasts))
    if part == "directory":
        directory, ids = _other_directory(ids, numbers, firsts, lasts, chance)
    directory_handle = file.add(*plain(directory))
    properties = sorted(
        {**FIXED_PROPERTIES, **_own(numbers, len(records), data_bytes, index_handle)}.items()
    )
    if part == "properties":
        _change_items(properties, chance)
    entries = [
        (PROPERTIES, handle_bytes(file.add(*plain(_small(properties, part, chance))))),
        (DIRECTORY, handle_bytes(directory_handle)),
    ]
    if part == "metaindex":
        _change_items(entries, chance)
    ending = footer(file.add(*plain(_small(entries, part, chance))), index_handle)
    if part == "footer":
        ending = _other_footer(ending, chance)
    body = bytes(file.body) + ending
    return Forgery(file_id(ids.tobytes()), body, firsts[0], lasts[-1], len(records))


def _id_of(stored: bytes) -> bytes:
    return stored[-RECORD_ID_BYTES:].rjust(RECORD_ID_BYTES, b"\0")


def _numbers(
    records: list[Record],
    spans: list[tuple[int, int]],
    contents: list[bytes],
    handles: list[Handle],
) -> Any:
    numbers = np.zeros((len(BlockColumn), len(spans)), np.int64)
    for at, (start, stop) in enumerate(spans):
        some = records[start:stop]
        numbers[:, at] = (
            len(some),
            handles[at].offset,
            handles[at].size,
            len(contents[at]),
            sum(len(key) for key, _ in some),
            sum(len(stored) for _, stored in some),
            sum(stored[:2] == b"\0\0" for _, stored in some),
            len(some[0][0]),
            len(some[-1][0]),
        )
    return numbers


def _own(numbers: Any, count: int, data_bytes: int, index: Handle) -> dict[bytes, bytes]:
    sums = numbers.sum(axis=1).tolist()
    values = {
        b"rocksdb.data.size": data_bytes,
        b"rocksdb.index.size": index.size,
        b"rocksdb.num.data.blocks": numbers.shape[1],
        b"rocksdb.num.entries": count,
        b"rocksdb.raw.key.size": sums[BlockColumn.KEY_BYTES] + SUFFIX_BYTES * count,
        b"rocksdb.raw.value.size": sums[BlockColumn.VALUE_BYTES],
    }
    return {name: varint(each % 2**64) for name, each in values.items()}


def _small(items: Items, part: str, chance: Random) -> bytes:
    """Return the content of a block, in rare cases with a wrong field."""
    content = small_block(items)
    is_changed = part in ("index", "properties", "metaindex") and chance.random() < 0.1
    return _other_block(content, chance) if is_changed else content


def _other_block(content: bytes, chance: Random) -> bytes:
    """Return a block with one wrong length, place or count, or with other bytes."""
    block = bytearray(content)
    (count,) = struct.unpack_from("<I", block, len(block) - 4)
    places = len(block) - 4 * (count + 1)
    way = chance.randrange(4)
    if way == 0 and count:
        at = places + 4 * chance.randrange(count + 1)  # one of the places, or their count
        (number,) = struct.unpack_from("<I", block, at)
        struct.pack_into("<I", block, at, other_number(number, chance, 32))
    elif way == 1 and count:
        (start,) = struct.unpack_from("<I", block, places + 4 * chance.randrange(count))
        for _ in range(chance.randrange(3)):
            start = read_varint(block, start)[1]
        number, stop = read_varint(block, start)
        block[start:stop] = varint(other_number(number, chance, chance.choice([7, 14, 32, 64])))
    elif way == 2:
        block[chance.randrange(len(block))] ^= chance.randrange(1, 256)
    else:
        return other_bytes(bytes(block), chance)
    return bytes(block)


def _change_compression(file: _File, handles: list[Handle], chance: Random) -> None:
    """Change the compression or the declared length of a data block."""
    handle = chance.choice(handles)
    body = bytearray(file.body[handle.offset : handle.offset + handle.size])
    kind = chance.choice([0, 1, 2, 4, 7, 255])
    if chance.random() < 0.3:
        body[0] = chance.randrange(256)
    start, stop = handle.offset, handle.offset + handle.size
    file.body[start : stop + 5] = body + trailer_of(bytes(body), kind)


def _change_items(items: Items, chance: Random) -> None:
    at = chance.randrange(len(items))
    key, value = items[at]
    way = chance.randrange(4)
    if way == 0:
        change_list(items, chance)
    elif way == 1:
        items[at] = (other_bytes(key, chance), value)
    elif way == 2 and value:
        number, stop = read_varint(value, 0) if value[-1] < 0x80 else (0, len(value))
        items[at] = (key, varint(other_number(number, chance)) + value[stop:])
    else:
        items[at] = (key, other_bytes(value, chance))


def _other_directory(
    ids: Any, numbers: Any, firsts: list[bytes], lasts: list[bytes], chance: Random
) -> tuple[bytes, Any]:
    """Return a directory with a wrong count, number, id or key, and its ids."""
    way = chance.randrange(6)
    if way == 0:
        body = bytearray(directory_bytes(Listed(ids, numbers, firsts, lasts)))
        at = chance.choice([0, 8])
        (number,) = struct.unpack_from("<Q", body, at)
        struct.pack_into("<Q", body, at, other_number(number, chance))
        return bytes(body), ids
    if way == 1:
        ids = ids.copy()
        row = chance.randrange(len(ids))
        ids[row] = ids[chance.randrange(len(ids))] if chance.random() < 0.5 else row
    elif way == 2:
        row, at = chance.randrange(len(BlockColumn)), chance.randrange(numbers.shape[1])
        numbers.view(np.uint64)[row, at] = other_number(int(numbers[row, at]) % 2**64, chance)
    elif way == 3:
        change_list(numbers.T.tolist(), chance)
        at, other = chance.randrange(numbers.shape[1]), chance.randrange(numbers.shape[1])
        numbers[:, [at, other]] = numbers[:, [other, at]]
    else:
        keys, row = chance.choice(
            [(firsts, BlockColumn.FIRST_KEY_BYTES), (lasts, BlockColumn.LAST_KEY_BYTES)]
        )
        at = chance.randrange(len(keys))
        keys[at] = chance.choice(keys) if chance.random() < 0.2 else other_bytes(keys[at], chance)
        if chance.random() < 0.9:
            numbers[row, at] = len(keys[at])
    return directory_bytes(Listed(ids, numbers, firsts, lasts)), ids


def _other_footer(ending: bytes, chance: Random) -> bytes:
    body = bytearray(ending)
    if chance.random() < 0.5:
        body[chance.randrange(FOOTER_BYTES)] = chance.randrange(256)
    else:
        start = 1
        for _ in range(chance.randrange(4)):
            start = read_varint(body, start)[1]
        number, stop = read_varint(body, start)
        body[start:stop] = varint(other_number(number, chance))
    return bytes(body)
