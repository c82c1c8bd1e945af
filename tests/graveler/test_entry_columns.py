"""Entries as columns: byte for byte the same as one entry at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries, encode_entries
from sparklake.graveler.entries import AddressType, Entry, entry_record, record_entry
from sparklake.graveler.messages import EntryMessage
from sparklake.graveler.records import Record, encode_record
from sparklake.graveler.times import (
    FIRST_MICROSECOND,
    FIRST_SECOND,
    LAST_MICROSECOND,
    LAST_SECOND,
    SECOND,
    shown_microseconds,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
entries = st.builds(
    Entry,
    address=texts,
    size=st.integers(0, (1 << 63) - 1) | st.integers(0, 300),
    checksum=texts,
    mtime=st.integers(FIRST_SECOND * SECOND, (LAST_SECOND + 1) * SECOND - 1)
    | st.integers(-3, 3).map(lambda seconds: seconds * SECOND),
    metadata=st.just({}) | st.dictionaries(texts, texts, max_size=3),
    content_type=st.sampled_from(["", "text/csv", "application/octet-stream"]) | texts,
    address_type=st.sampled_from(AddressType),
)


@given(st.lists(entries, max_size=12))
def test_columns_decode_like_single_entries(some: list[Entry]) -> None:
    records = [entry_record(f"k{at:03}", entry) for at, entry in enumerate(some)]
    columns = decode_entries(block_of_records(records))
    assert columns.address.to_pylist() == [each.address for each in some]
    assert columns.size.tolist() == [each.size for each in some]
    assert columns.checksum.to_pylist() == [each.checksum for each in some]
    pairs = zip(columns.seconds.tolist(), columns.nanos.tolist(), strict=True)
    assert [second * SECOND + nano for second, nano in pairs] == [each.mtime for each in some]
    assert columns.content_type.to_pylist() == [each.content_type for each in some]
    assert columns.relative.tolist() == [each.is_relative for each in some]
    metadata = [dict(each.metadata) for each in some]
    if columns.metadata is None:
        assert not any(metadata)
    else:
        assert [dict(each) for each in columns.metadata.to_pylist()] == metadata


@given(st.lists(entries, min_size=1, max_size=12))
def test_columns_encode_like_single_entries(some: list[Entry]) -> None:
    plain = [
        each
        for each in some
        if not each.metadata and each.mtime >= 10**9 and each.address_type is not AddressType(0)
    ]
    records = [entry_record(f"k{at:03}", entry) for at, entry in enumerate(plain)]
    if records:
        keys = pa.array([key for key, _ in records], pa.binary())
        stored = encode_entries(keys, decode_entries(block_of_records(records)))
        assert stored.to_pylist() == [value for _, value in records]


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 63), (1 << 63) - 1)
            | st.sampled_from([FIRST_SECOND - 1, FIRST_SECOND, LAST_SECOND, LAST_SECOND + 1]),
            st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from([0, 999_999_999]),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_invalid_times_are_shown_like_those_of_single_entries(
    times: list[tuple[int, int, bool]],
) -> None:
    records = [
        foreign_record(f"k{at}", second, nano, {"k": "v"} if is_odd else {})
        for at, (second, nano, is_odd) in enumerate(times)
    ]
    mtimes = decode_entries(block_of_records(records)).shown_mtimes().tolist()
    assert mtimes == [shown_microseconds(record_entry(each).mtime) for each in records]
    assert all(FIRST_MICROSECOND <= each <= LAST_MICROSECOND for each in mtimes)


def foreign_record(key: str, seconds: int, nanos: int, metadata: dict[str, str]) -> Record:
    """Return a record with an unchecked time."""
    message = EntryMessage(address="a", e_tag="s", size=1, metadata=metadata)
    message.last_modified.seconds, message.last_modified.nanos = seconds, nanos
    return encode_record(key.encode(), b"i", message.SerializeToString(deterministic=True))


def test_fields_in_any_order_are_read() -> None:
    data = b"\x22\x03sum\x0a\x04addr\x18\x05\x30\x02\xfa\x01\x02??"
    records = [encode_record(b"a", b"i", data), entry_record("b", Entry("x", 1, "s", 10**18))]
    assert record_entry(records[0]).checksum == "sum"
    columns = decode_entries(block_of_records(records))
    assert columns.checksum.to_pylist() == ["sum", "s"]
    assert columns.address.to_pylist() == ["addr", "x"]
    assert columns.size.tolist() == [5, 1]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x50short", id="a length that leaves it"),
        pytest.param(b"\x0a\x02\xff\xff", id="no UTF-8"),
        pytest.param(b"\x30\x07", id="no kind of address"),
        pytest.param(b"\x12\x04\x08\x01\x10", id="half a time"),
        pytest.param(b"\x0a\xff\xff\xff", id="half a length"),
    ],
)
def test_malformed_entry_bytes_are_rejected(data: bytes) -> None:
    good = entry_record("b", Entry("x", 1, "s", 10**18))
    block = block_of_records([encode_record(b"a", b"i", data), good])
    with pytest.raises(CorruptFileError):
        decode_entries(block)


def test_an_empty_block_has_no_entries() -> None:
    assert decode_entries(block_of_records([])).size.tolist() == []
    assert np.asarray(decode_entries(block_of_records([])).relative).tolist() == []
