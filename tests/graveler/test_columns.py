"""Columns of bytes, against the same done one by one."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklake.graveler.blocks.columns import (
    Keys,
    digests_at,
    gather,
    search,
    varint_array,
    varints_at,
)
from sparklake.graveler.buffers import binary_array, data_of, offsets_of
from sparklake.graveler.ids import read_varint, varint

PADDING = bytes(8)

# Keys that differ late, in their length alone, by zeros at their ends, or by the highest byte.
some_keys = st.lists(
    st.binary(min_size=1, max_size=3)
    | st.builds(bytes.__add__, st.just(b"data/part-"), st.binary(max_size=12))
    | st.builds(
        lambda key, zeros: key + bytes(zeros), st.binary(min_size=1, max_size=9), st.integers(0, 9)
    ),
    max_size=60,
)


def keys_of(keys: list[bytes]) -> Keys:
    data = np.frombuffer(b"".join(keys) + PADDING, np.uint8)
    lengths = np.array([len(key) for key in keys], np.int64)
    return Keys(data, np.cumsum(lengths) - lengths, lengths)


@given(some_keys, some_keys)
@example([b"a"], [b"a\0"])
@example([b"a\0"], [b"a"])
@example([b"\xff" * 16], [b"\xff" * 8])
def test_search_agrees_with_bisection(some: list[bytes], others: list[bytes]) -> None:
    keys, searched = sorted(set(some)), sorted({*others, *some[::3]})
    places, matches = search(keys_of(keys), keys_of(searched))
    assert places.tolist() == [bisect_left(keys, key) for key in searched]
    assert matches.tolist() == [key in keys for key in searched]


@given(some_keys)
def test_keys_round_trip(some: list[bytes]) -> None:
    keys = keys_of(some)
    assert [keys[at] for at in range(len(keys))] == some
    assert keys.array().to_pylist() == some
    rows = np.arange(0, len(some), 2)
    assert keys.at(rows).array().to_pylist() == some[::2]


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=5)), max_size=40))
def test_slices_are_copied_into_one_array(parts: list[tuple[bytes, bytes]]) -> None:
    data = np.frombuffer(b"".join(one + gap for one, gap in parts) or b"\0", np.uint8)
    lengths = np.array([len(one) for one, _ in parts], np.int64)
    strides = np.array([len(one) + len(gap) for one, gap in parts], np.int64)
    starts = np.cumsum(strides) - strides
    assert gather(data, starts, lengths).to_pylist() == [one for one, _ in parts]


@given(st.lists(st.integers(0, (1 << 63) - 1) | st.integers(0, 300), max_size=40))
def test_varints_round_trip(numbers: list[int]) -> None:
    encoded = varint_array(np.array(numbers, np.uint64))
    assert encoded.to_pylist() == [varint(number) for number in numbers]
    data = np.frombuffer(b"".join(encoded.to_pylist()) + PADDING, np.uint8)
    starts = offsets_of(encoded)[:-1].astype(np.int64)
    values, after = varints_at(data, starts)
    assert values.tolist() == numbers
    assert after.tolist() == offsets_of(encoded)[1:].tolist()
    assert [read_varint(data.tobytes(), int(at))[0] for at in starts] == numbers


def test_a_negative_number_takes_ten_bytes() -> None:
    data = np.frombuffer(varint((1 << 64) - 5) + PADDING, np.uint8)
    values, after = varints_at(data, np.array([0]))
    assert (values.tolist(), after.tolist()) == ([-5], [10])


@pytest.mark.parametrize("data", [b"\xff" * 30, b"\xff" * 8])
def test_an_unterminated_varint_is_rejected(data: bytes) -> None:
    with pytest.raises(IndexError):
        varints_at(np.frombuffer(data, np.uint8), np.array([0]))


def test_digests_are_words_in_memory_order() -> None:
    data = np.frombuffer(b"..." + bytes(range(32)) + b"." + bytes(range(100, 132)), np.uint8)
    rows = digests_at(data, np.array([3, 36]))
    assert rows.tobytes() == bytes(range(32)) + bytes(range(100, 132))
    assert digests_at(data, np.zeros(0, np.int64)).shape == (0, 4)


def test_arrays_are_read_without_a_copy() -> None:
    data = b"abcdef"
    array = binary_array(np.array([0, 2, 2, 6]), data)
    assert array.to_pylist() == [b"ab", b"", b"cdef"]
    part = array.slice(1)
    assert offsets_of(part).tolist() == [2, 2, 6]
    assert data_of(part).tobytes()[2:6] == b"cdef"
    assert data_of(pa.array([], pa.binary())).tolist() == []
