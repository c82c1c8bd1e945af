"""Where a range ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.planning.split import CAP_FACTOR, NewRangeRecords, split
from sparklake.graveler.records import Record
from tests.support import oracle
from tests.support.blocks import in_blocks
from tests.support.trees import records_of

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 64)

sizes = st.sampled_from(SIZES)
contents = st.dictionaries(
    st.integers(0, 500).map(lambda number: b"k%03d" % number), st.sampled_from([b"A", b"B", b"C"])
)


def is_range_end(record_id: bytes, range_records: int) -> bool:
    return int.from_bytes(record_id, "big") % range_records == 0


def lengths(records: list[Record], range_records: int) -> list[int]:
    return [len(stretch.records) for stretch in split(in_blocks(records), range_records)]


@given(contents, sizes)
def test_ranges_follow_the_formula(pairs: dict[bytes, bytes], range_records: int) -> None:
    records = records_of(pairs)
    stretches = list(split(in_blocks(records), range_records))
    keys = [stretch.records.key_array().to_pylist() for stretch in stretches]
    assert keys == [[key for key, _ in each] for each in oracle.cut(pairs, range_records)]
    assert [record for stretch in stretches for record in stretch.records.records()] == records


@given(contents, sizes)
def test_only_the_last_stretch_may_be_open(pairs: dict[bytes, bytes], range_records: int) -> None:
    stretches = list(split(in_blocks(records_of(pairs)), range_records))
    assert all(stretch.closed for stretch in stretches[:-1])
    for stretch in stretches:
        records = stretch.records.records()
        ended = is_range_end(records[-1][1][-32:], range_records)
        full = len(stretch.records) == CAP_FACTOR * range_records
        assert stretch.closed == (ended or full)
        assert not any(is_range_end(each[1][-32:], range_records) for each in records[:-1])


@given(contents, sizes, st.data())
def test_splitting_starts_afresh_after_each_range_end(
    pairs: dict[bytes, bytes], range_records: int, data: st.DataObject
) -> None:
    records = records_of(pairs)
    stretches = list(split(in_blocks(records), range_records))
    skipped = data.draw(st.integers(0, len(stretches)))
    rest = records[sum(len(stretch.records) for stretch in stretches[:skipped]) :]
    again = split(in_blocks(rest), range_records)
    assert list(map(contents_of, again)) == list(map(contents_of, stretches[skipped:]))


def contents_of(stretch: NewRangeRecords) -> tuple[list[Record], bool]:
    return stretch.records.records(), stretch.closed


def record_with_id(key: bytes, number: int) -> Record:
    """Return a record with a record id of our choice."""
    return key, b"stored" + number.to_bytes(32, "big")


@pytest.mark.parametrize("range_records", SIZES[1:])
def test_a_range_without_an_end_is_split_at_the_cap(range_records: int) -> None:
    cap = CAP_FACTOR * range_records
    records = [record_with_id(b"k%05d" % at, range_records + 1) for at in range(2 * cap + 1)]
    assert lengths(records, range_records) == [cap, cap, 1]
    assert lengths(records[: 2 * cap], range_records) == [cap, cap]
    assert [each.closed for each in split(in_blocks(records[: 2 * cap]), range_records)] == [
        True,
        True,
    ]


def test_a_range_end_restarts_the_count_to_the_cap() -> None:
    records = [record_with_id(b"k%02d" % at, 8 if at == 5 else 9) for at in range(16)]
    assert lengths(records, 2) == [6, 8, 2]


def test_a_range_end_at_the_cap_ends_one_range() -> None:
    records = [record_with_id(b"k%02d" % at, 8 if at == 7 else 9) for at in range(9)]
    assert lengths(records, 2) == [8, 1]


@pytest.mark.parametrize(
    ("number", "divisible_by"),
    [
        (0, SIZES),
        (1 << 64, (1, 2, 4, 8, 64)),
        (3 << 64, (1, 2, 3, 4, 8, 12, 64)),
        (1 << 255, (1, 2, 4, 8, 64)),
        ((1 << 256) - 1, (1, 3, 5)),
        (7 << 100, (1, 2, 4, 7, 8, 64)),
        (7, (1, 7)),
        (1, (1,)),
    ],
)
def test_all_32_bytes_decide_a_range_end(number: int, divisible_by: tuple[int, ...]) -> None:
    for range_records in SIZES:
        expected = range_records in divisible_by
        assert is_range_end(number.to_bytes(32, "big"), range_records) is expected
        assert [
            each.closed for each in split(in_blocks([record_with_id(b"k", number)]), range_records)
        ] == [expected]


def test_no_record_makes_no_range() -> None:
    assert list(split(in_blocks([]), 4)) == []


def test_a_range_is_yielded_before_the_next_record_is_read() -> None:
    """One range is held at most."""
    read = 0

    def stream():
        nonlocal read
        for at in range(100):
            read += 1
            yield block_of_records([record_with_id(b"k%02d" % at, 9)])

    assert len(next(split(stream(), 2)).records) == read == 8
