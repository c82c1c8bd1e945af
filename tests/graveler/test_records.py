"""Records and their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError, InvalidKeyError, InvalidRowsError
from sparklake.graveler.ids import zigzag
from sparklake.graveler.records import (
    ValueRecord,
    decode_record,
    encode_record,
    has_trailer,
    is_tombstone,
    tombstone,
    with_trailer,
)
from tests.support.oracle import value_record_id

keys = st.binary(min_size=1, max_size=1024)
some_identities = st.binary(min_size=1, max_size=255)
some_data = st.binary(max_size=300) | st.integers(0, 65536).map(bytes)


@given(keys, some_identities, some_data)
def test_a_record_round_trips(key: bytes, identity: bytes, data: bytes) -> None:
    stored_key, stored = encode_record(key, identity, data)
    assert stored_key == key
    assert decode_record(key, stored) == ValueRecord(key, identity, data)
    assert stored[-32:] == value_record_id(key, identity) == ValueRecord(key, identity, data).id
    assert has_trailer(key, stored)
    assert not is_tombstone(stored)


@given(keys, some_identities, some_data)
def test_a_record_without_trailer_gets_one(key: bytes, identity: bytes, data: bytes) -> None:
    _, stored = encode_record(key, identity, data)
    assert not has_trailer(key, stored[:-32])
    assert decode_record(key, stored[:-32]) == decode_record(key, stored)
    assert with_trailer(key, stored[:-32]) == (key, stored)
    assert with_trailer(key, stored) == (key, stored)


@given(keys)
def test_a_tombstone_round_trips(key: bytes) -> None:
    stored_key, stored = tombstone(key)
    assert stored_key == key
    assert is_tombstone(stored)
    assert has_trailer(key, stored)
    assert decode_record(key, stored) == ValueRecord(key, b"", b"")
    assert stored[-32:] == value_record_id(key, b"")


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (1, "02"), (32, "40"), (63, "7e"), (64, "8001"), (8191, "fe7f"), (8192, "808001")],
)
def test_lengths_are_zigzag_varints(number: int, encoded: str) -> None:
    assert zigzag(number).hex() == encoded


@pytest.mark.parametrize("size", [1, 1024])
def test_keys_at_their_limits_are_accepted(size: int) -> None:
    assert decode_record(*encode_record(b"k" * size, b"i", b"")).key == b"k" * size


@pytest.mark.parametrize("size", [0, 1025])
def test_keys_beyond_their_limits_are_rejected(size: int) -> None:
    with pytest.raises(InvalidKeyError, match=f"has {size}"):
        encode_record(b"k" * size, b"i", b"")


@pytest.mark.parametrize("size", [1, 255])
def test_identities_at_their_limits_are_accepted(size: int) -> None:
    assert decode_record(*encode_record(b"k", b"i" * size, b"")).identity == b"i" * size


@pytest.mark.parametrize("size", [0, 256])
def test_identities_beyond_their_limits_are_rejected(size: int) -> None:
    with pytest.raises(InvalidRowsError, match=f"has {size} bytes"):
        encode_record(b"k", b"i" * size, b"")


def test_data_beyond_its_limit_is_rejected() -> None:
    assert len(decode_record(*encode_record(b"k", b"i", bytes(65536))).data) == 65536
    with pytest.raises(InvalidRowsError, match="65537"):
        encode_record(b"k", b"i", bytes(65537))


@given(keys, some_identities, st.binary(max_size=100), st.integers(min_value=1))
def test_a_truncated_value_is_corrupt(key: bytes, identity: bytes, data: bytes, lost: int) -> None:
    """Of a value with its trailer, any tail may be lost but the whole trailer."""
    _, stored = encode_record(key, identity, data)
    head = stored[: -1 - lost % len(stored)]
    if len(stored) - len(head) == 32:
        return
    with pytest.raises(CorruptFileError, match="is not a Graveler record"):
        decode_record(key, head)


@pytest.mark.parametrize(
    "stored",
    [b"", b"\x02", b"\xff" * 40, b"\x02i\x00x", b"\x02i\x00" + bytes(31), b"\x02i\x00" + bytes(33)],
)
def test_malformed_values_are_corrupt(stored: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_record(b"k", stored)
