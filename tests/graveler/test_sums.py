"""Size sums saturate at the largest 64-bit number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.sums import MAX_SUM, bounded_sum, column_sum, run_sums

sizes = st.lists(
    st.integers(0, MAX_SUM) | st.integers(0, 9) | st.just(MAX_SUM // 2), min_size=1, max_size=9
)


@given(sizes)
def test_a_sum_saturates(some: list[int]) -> None:
    column = np.array(some, np.int64)
    assert column_sum(column) == bounded_sum(some) == min(sum(some), MAX_SUM)


@given(sizes, st.sets(st.integers(1, 8)))
def test_run_sums_saturate(some: list[int], cuts: set[int]) -> None:
    starts = [0, *sorted(each for each in cuts if each < len(some))]
    sums = run_sums(np.array(some, np.int64), np.array(starts))
    assert sums.dtype == np.int64
    stops = [*starts[1:], len(some)]
    runs = [some[start:stop] for start, stop in zip(starts, stops, strict=True)]
    assert sums.tolist() == [min(sum(run), MAX_SUM) for run in runs]


def test_an_empty_sum_is_zero() -> None:
    assert column_sum(np.zeros(0, np.int64)) == bounded_sum([]) == 0


@pytest.mark.parametrize("count", [2, 3])
def test_the_largest_sizes_do_not_turn_negative(count: int) -> None:
    assert column_sum(np.full(count, MAX_SUM)) == MAX_SUM
