"""Entries: their bytes and their identities."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError, InvalidKeyError, InvalidRowsError
from sparklake.graveler.entries import (
    MAX_SIZE,
    AddressType,
    Entry,
    decode_entry,
    encode_entry,
    entry_identity,
    entry_record,
    record_entry,
)
from tests.support.cases import for_each

ENTRY = Entry("data/a", 12, "abc", 1_700_000_000_123_456_789, {"k": "v", "a": "b"}, "text/csv")

texts = st.text(st.characters(codec="utf-8"), max_size=30)
metadata = st.dictionaries(texts, texts, max_size=6)
entries = st.builds(
    Entry,
    address=texts,
    size=st.integers(0, MAX_SIZE),
    checksum=texts,
    mtime=st.integers(-(10**18), 4 * 10**18),
    metadata=metadata,
    content_type=texts,
    address_type=st.sampled_from(AddressType),
)


@given(entries)
def test_an_entry_round_trips(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@given(metadata, st.randoms())
def test_bytes_do_not_depend_on_the_order_of_metadata(pairs: dict[str, str], chance) -> None:
    items = list(pairs.items())
    chance.shuffle(items)
    one, other = (replace(ENTRY, metadata=each) for each in (pairs, dict(items)))
    assert encode_entry(one) == encode_entry(other)
    assert entry_identity(one) == entry_identity(other)


def test_an_entry_is_encoded_in_field_order_with_sorted_maps() -> None:
    encoded = encode_entry(replace(ENTRY, metadata={"z": "1", "a": "2"}))
    assert encoded.hex() == (
        "0a06646174612f61"  # address
        "120b0880e2cfaa061095 9aef3a"  # last modified
        "180c"  # size
        "2203616263"  # checksum
        "2a060a016112 0132"  # metadata a
        "2a060a017a12 0131"  # metadata z
        "3001"  # address type
        "3a08746578742f637376"  # content type
    ).replace(" ", "")


def int64(value: int) -> bytes:
    return b"\x02\x08" + value.to_bytes(8, "big")


def string(text: str) -> bytes:
    return b"\x01" + int64(len(text.encode())) + text.encode()


@given(entries)
def test_the_identity_follows_the_formula_of_lakefs(entry: Entry) -> None:
    pairs = sorted(entry.metadata.items(), key=lambda pair: pair[0].encode())
    hashed = int64(entry.size) + string(entry.checksum) + b"\x04" + int64(len(pairs))
    for key, value in pairs:
        hashed += string(key) + string(value)
    if entry.content_type:
        hashed += string(entry.content_type)
    assert entry_identity(entry) == sha256(hashed).digest()


@for_each(
    ("change", "same"),
    [
        ({"address": "elsewhere"}, True),
        ({"address_type": AddressType.FULL}, True),
        ({"mtime": 5}, True),
        ({"size": 13}, False),
        ({"checksum": "abd"}, False),
        ({"metadata": {}}, False),
        ({"metadata": {"k": "v", "a": "c"}}, False),
        ({"content_type": ""}, False),
        ({"content_type": "text/plain"}, False),
    ],
)
def test_only_content_changes_the_identity(change: dict, same: bool) -> None:
    assert (entry_identity(replace(ENTRY, **change)) == entry_identity(ENTRY)) is same


@pytest.mark.parametrize(
    ("address", "kind", "relative"),
    [
        ("data/a", AddressType.RELATIVE, True),
        ("s3://b/a", AddressType.FULL, False),
        ("data/a", AddressType.BY_PREFIX_DEPRECATED, True),
        ("s3://b/a", AddressType.BY_PREFIX_DEPRECATED, False),
    ],
)
def test_the_address_type_decides_whether_an_address_is_relative(
    address: str, kind: AddressType, relative: bool
) -> None:
    assert replace(ENTRY, address=address, address_type=kind).is_relative is relative


def test_a_record_contains_its_entry() -> None:
    key, stored = entry_record("a/ž.csv", ENTRY)
    assert key == "a/ž.csv".encode()
    assert record_entry((key, stored)) == ENTRY


@pytest.mark.parametrize("size", [0, MAX_SIZE])
def test_sizes_at_their_limits_are_preserved(size: int) -> None:
    assert record_entry(entry_record("a", replace(ENTRY, size=size))).size == size


@for_each(
    "change",
    [
        {"size": -1},
        {"size": MAX_SIZE + 1},
        {"address": "\ud800"},
        {"checksum": "\ud800"},
        {"content_type": "\ud800"},
        {"metadata": {"k": "\ud800"}},
        {"metadata": {"\ud800": "v"}},
        {"metadata": {"k": "v" * 65536}},
        {"address": "a" * 65536},
    ],
)
def test_an_invalid_entry_is_rejected(change: dict) -> None:
    with pytest.raises(InvalidRowsError):
        entry_record("a", replace(ENTRY, **change))


def test_the_key_of_an_entry_is_validated() -> None:
    with pytest.raises(InvalidKeyError):
        entry_record("../a", ENTRY)


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x30\x07"])
def test_malformed_entry_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="no valid object entry"):
        decode_entry(data)


def test_empty_bytes_decode_to_an_empty_entry() -> None:
    empty = Entry("", 0, "", 0, {}, "", AddressType.BY_PREFIX_DEPRECATED)
    assert decode_entry(b"") == empty
