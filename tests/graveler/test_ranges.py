"""Range lists decode only the requested ranges."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError
from sparklake.graveler import ranges as range_lists
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ranges import (
    RangeInfo,
    RangeList,
    overlapping,
    overlaps,
    range_list,
    record_ids,
)
from tests.graveler.test_plan import intervals, trees
from tests.support.trees import records_of

Ranges = tuple[RangeInfo, ...]


@given(trees, st.integers(-70, 70), st.integers(-70, 70))
def test_a_range_list_is_a_sequence(ranges: Ranges, start: int, stop: int) -> None:
    listed = range_list(ranges)
    assert (len(listed), tuple(listed), bool(listed)) == (len(ranges), ranges, bool(ranges))
    assert tuple(listed[start:stop]) == ranges[start:stop]
    assert tuple(listed[start:][:stop]) == ranges[start:][:stop]
    if -len(ranges) <= start < len(ranges):
        assert listed[start] == ranges[start]
        assert listed.index(ranges[start]) == ranges.index(ranges[start])
    else:
        with pytest.raises(IndexError):
            _ = listed[start]


@given(trees, trees)
def test_equal_lists_have_equal_ranges(one: Ranges, other: Ranges) -> None:
    assert (range_list(one) == range_list(other)) == (one == other)
    assert range_list(one) == range_list(one)
    assert hash(range_list(one)) == hash(range_list(one))


@given(trees, intervals)
def test_overlaps_agree_with_tuples_of_ranges(ranges: Ranges, within: Interval) -> None:
    listed = range_list(ranges)
    assert tuple(overlapping(listed, within)) == overlapping(ranges, within)
    assert overlaps(listed, within) == overlaps(ranges, within)
    if not within.is_empty:
        assert overlaps(ranges, within) == bool(overlapping(ranges, within))


@given(trees, st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=5))
def test_parts_are_concatenated(ranges: Ranges, cuts: list[tuple[int, bool]]) -> None:
    listed, parts, done = range_list(ranges), [], 0
    for cut, as_list in sorted(cuts):
        parts.append(listed[done:cut] if as_list else ranges[done:cut])
        done = cut
    joined = range_list(*parts, ranges[done:])
    assert joined == listed
    assert joined.block.records() == listed.block.records()
    assert (record_ids(ranges) == listed.block.ids).all()


def test_only_requested_ranges_are_decoded() -> None:
    ranges = tuple(
        RangeInfo(RangeId(f"{at:064}"), b"%04d" % at, b"%04d" % at, 1, 100) for at in range(3000)
    )
    listed = range_list(ranges)
    decode = range_lists._range_info
    with mock.patch.object(range_lists, "_range_info", side_effect=decode) as decoding:
        assert listed[1000:2000][7] == ranges[1007]
        assert range_list(listed[:10], listed[10:]) == listed
    assert decoding.call_count == 1


def test_foreign_records_are_not_ranges() -> None:
    listed = RangeList(block_of_records(records_of({b"a": b"A"}, b"data")))
    with pytest.raises(CorruptFileError, match="does not describe a range"):
        _ = listed[0]


def test_a_range_id_that_is_not_hexadecimal_is_rejected() -> None:
    for name in ("g" * 64, "a" * 63, "A" * 64, "../" + "a" * 61):
        listed = RangeList(range_list((RangeInfo(RangeId(name), b"a", b"b", 1, 1),)).block)
        with pytest.raises(CorruptFileError, match="does not describe a range"):
            _ = listed[0]


def test_a_slice_with_a_step_is_rejected() -> None:
    with pytest.raises(ValueError, match="step"):
        _ = range_list(())[::-1]
