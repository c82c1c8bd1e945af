"""Objects in columns: the same from data blocks, from encoded records, and without kernels."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sparklake.errors import CorruptFileError, SparklakeError
from sparklake.graveler import kernel_choice
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.entry_columns import object_columns
from sparklake.graveler.entries import AddressType, Entry, encode_entry, entry_identity
from sparklake.graveler.records import Record, encode_record
from sparklake.graveler.sstable.reader import read_sstable
from sparklake.graveler.sstable.writer import make_table
from sparklake.graveler.times import SECOND

NAMESPACE = "s3://bucket/äöü"
TEXTS = ("", "a", "text/plain", "ž/ü", "日本", "x" * 300)


def plain_entry(chance: random.Random) -> Entry:
    """Return an entry within the limits of kernels."""
    return Entry(
        address=chance.choice(TEXTS),
        size=chance.choice((0, 1, 127, 128, 10**12, (1 << 63) - 1)),
        checksum=chance.choice(TEXTS),
        mtime=chance.randrange(4 * 10**9) * SECOND + chance.choice((0, 1, 999, 999_999_999)),
        content_type=chance.choice(TEXTS),
        address_type=chance.choice((AddressType.RELATIVE, AddressType.FULL)),
    )


def unusual_entry(chance: random.Random) -> Entry:
    """Return an entry outside the limits of kernels."""
    plain = plain_entry(chance)
    changes: dict[str, Any] = chance.choice(
        [
            {"metadata": {"colour": "blue"}},
            {"mtime": -SECOND},
            {"mtime": 300_000_000_000 * SECOND},
            {"address_type": AddressType.BY_PREFIX_DEPRECATED, "address": "s3://other/x"},
            {"address_type": AddressType.BY_PREFIX_DEPRECATED},
        ]
    )
    fields = {name: getattr(plain, name) for name in Entry.__slots__}
    return Entry(**{**fields, **changes})


def records(chance: random.Random, count: int, unusual: float) -> list[Record]:
    paths = sorted({f"{chance.choice(TEXTS)}{chance.randrange(10**6)}" for _ in range(count)})
    return [
        record(path, unusual_entry(chance) if chance.random() < unusual else plain_entry(chance))
        for path in sorted(paths, key=str.encode)
    ]


def record(path: str, entry: Entry) -> Record:
    """Return the record of an entry, valid or not."""
    return encode_record(path.encode(), entry_identity(entry), encode_entry(entry))


def packed(some: list[Record], *, compress: bool) -> Block:
    """Return records in closed data blocks."""
    block = read_sstable("a table", make_table(block_of_records(some), compress=compress).file)
    assert block is not None
    return block


def columns_or_error(block: Block) -> Any:
    """Return the columns as lists, or the error."""
    try:
        texts, numbers, metadata = object_columns(block, NAMESPACE)
    except SparklakeError as error:
        return type(error), str(error)
    columns = [each.to_pylist() for each in texts] + [each.tolist() for each in numbers]
    return columns, None if metadata is None else metadata.to_pylist()


@pytest.mark.parametrize("unusual", [0, 0.01, 0.5])
@pytest.mark.parametrize("compress", [False, True])
def test_all_block_forms_give_the_same_objects(unusual: float, compress: bool) -> None:
    chance = random.Random(f"{unusual} {compress}")
    for count in (1, 2, 63, 500, 1500):
        some = records(chance, count, unusual)
        expected = []
        with kernel_choice.only_definitions():
            expected = [
                columns_or_error(block_of_records(some)),
                columns_or_error(packed(some, compress=compress)),
            ]
        assert expected[0] == expected[1]
        assert columns_or_error(block_of_records(some)) == expected[0]
        assert columns_or_error(packed(some, compress=compress)) == expected[0]
        assert len(expected[0][0][0]) == len(some)


@pytest.mark.parametrize("damage", ["key", "address", "no entry"])
def test_kernels_and_definitions_raise_the_same_errors(damage: str) -> None:
    some = records(random.Random(damage), 200, 0)
    if damage == "key":
        some.append(encode_record(b"\xff", b"identity", b""))
    elif damage == "address":
        some.append(encode_record(b"\xee\x80\x80", b"identity", b"\x0a\x01\xff"))
    else:
        some.append(encode_record(b"\xee\x80\x80", b"identity", b"\xff"))
    with kernel_choice.only_definitions():
        expected = columns_or_error(block_of_records(some))
    assert issubclass(expected[0], SparklakeError)
    assert columns_or_error(block_of_records(some)) == expected
    assert columns_or_error(packed(some, compress=False)) == expected


def test_damaged_bytes_are_rejected() -> None:
    file = bytearray(make_table(block_of_records(records(random.Random(1), 300, 0))).file)
    file[100] ^= 1
    block = read_sstable("a table", bytes(file))
    assert block is not None
    with pytest.raises(CorruptFileError, match="a table"):
        object_columns(block, NAMESPACE)
