"""The verification of records, by compiled kernels and by their definition."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.verification import record_problem
from sparklake.graveler.entries import AddressType, Entry, encode_entry, entry_identity
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.kernel_choice import only_definitions
from sparklake.graveler.records import Record, encode_record, record_data, tombstone

BOTH_WAYS = pytest.mark.parametrize("way", [nullcontext, only_definitions])
Way = Callable[[], AbstractContextManager[None]]

ENTRY = Entry("data/1", 10, "checksum", 1, content_type="text/csv")
ENTRIES = (
    ENTRY,
    replace(ENTRY, content_type="", mtime=0, size=0),
    replace(ENTRY, checksum=""),
    replace(ENTRY, metadata={"owner": "ann"}),
    replace(ENTRY, address="s3://bucket/1", address_type=AddressType.FULL),
    replace(ENTRY, address="old", address_type=AddressType.BY_PREFIX_DEPRECATED),
)


def record(key: bytes, entry: Entry = ENTRY, identity: bytes = b"") -> Record:
    return encode_record(key, identity or entry_identity(entry), encode_entry(entry))


def with_message(message: bytes) -> Record:
    return encode_record(b"b", entry_identity(ENTRY), message)


def problem(records: list[Record]) -> str:
    block = block_of_records(records)
    return record_problem(block, block.encoded)


@BOTH_WAYS
@pytest.mark.parametrize("entry", ENTRIES)
def test_valid_records_have_no_problem(entry: Entry, way: Way) -> None:
    with way():
        assert problem([record(b"a"), record(b"b", entry), record(b"\xff")]) == ""
        assert problem([record(b"a", entry), tombstone(b"b")]) == ""


def changed(stored: bytes, at: int) -> bytes:
    body = bytearray(stored)
    body[at] ^= 1
    return bytes(body)


WRONG_ID = (
    "1 of 3 records have a record id that does not match its key and identity: the first is 'b'"
)
WRONG_IDENTITY = "1 of 3 records have an entry that does not match its identity: the first is 'b'"


@BOTH_WAYS
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((b"b", changed(record(b"b")[1], -1)), WRONG_ID),
        ((b"b", changed(tombstone(b"b")[1], -RECORD_ID_BYTES)), WRONG_ID),
        ((b"b", record(b"x")[1]), WRONG_ID),
        (record(b"b", identity=entry_identity(replace(ENTRY, size=11))), WRONG_IDENTITY),
        (record(b"b", identity=entry_identity(replace(ENTRY, checksum="c"))), WRONG_IDENTITY),
        (record(b"b", identity=entry_identity(replace(ENTRY, content_type=""))), WRONG_IDENTITY),
        (
            record(b"b", identity=entry_identity(replace(ENTRY, metadata={"a": "b"}))),
            WRONG_IDENTITY,
        ),
        (record(b"b", identity=b"short"), WRONG_IDENTITY),
        (record(b"a"), "its keys are not in ascending order"),
        (record(b"0"), "its keys are not in ascending order"),
        (with_message(record_data(*record(b"b"))[:-3]), "a record is not the entry of an object"),
        (with_message(b"\x0a\x02\xff\xff"), "a record is not the entry of an object"),
    ],
)
def test_an_invalid_record_is_reported(wrong: Record, message: str, way: Way) -> None:
    with way():
        assert problem([record(b"a"), wrong, record(b"c")]).startswith(message)


@BOTH_WAYS
def test_a_directory_with_different_ids_is_reported(way: Way) -> None:
    block = block_of_records([record(b"a"), record(b"b"), record(b"c")])
    ids = block.ids.copy()
    ids[1, 2] += 1
    with way():
        assert record_problem(Block(block.units, ids), block.encoded) == WRONG_ID


@BOTH_WAYS
def test_a_negative_size_is_reported(way: Way) -> None:
    entry = replace(ENTRY, size=-1)
    with way():
        message = problem([record(b"a"), record(b"b", entry), record(b"c")])
    assert "1 of 3 records have a negative size: the first is 'b'" in message
