"""Chosen paths as keys."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import InvalidInputError, InvalidKeyError
from sparklake.graveler.keys import EVERYTHING, Interval
from sparklake.graveler.planning.path_filter import ALL, PathFilter, filter_for, first_paths

texts = st.text("ab/é", min_size=1, max_size=4).filter(lambda text: not text.startswith("/"))
some = st.lists(texts, min_size=1, max_size=5)
keys = st.text("ab/é", min_size=1, max_size=6).map(str.encode)
intervals = st.builds(Interval, keys, st.none() | keys).filter(lambda each: not each.is_empty)


def is_chosen(paths: list[str], key: bytes) -> bool:
    return any(
        key == path.encode() or (path.endswith("/") and key.startswith(path.encode()))
        for path in paths
    )


@given(some, keys)
def test_a_path_selects_an_object_or_a_prefix(paths: list[str], key: bytes) -> None:
    path_filter = filter_for(paths)
    assert (key in path_filter) == is_chosen(paths, key)
    assert (key in path_filter) == any(key in each for each in path_filter.intervals)
    assert not is_chosen(paths, key) or (
        key.startswith(path_filter.prefix) and key in path_filter.hull
    )


@given(some)
def test_intervals_are_disjoint_and_sorted(paths: list[str]) -> None:
    intervals_of_paths = filter_for(paths).intervals
    assert filter_for([*paths[::-1], *paths]).intervals == intervals_of_paths
    for one, other in pairwise(intervals_of_paths):
        assert one.stop is not None
        assert one.start < one.stop < other.start


@given(some, intervals, keys)
def test_tiles_cover_an_interval(paths: list[str], interval: Interval, key: bytes) -> None:
    path_filter = filter_for(paths)
    tiles = list(path_filter.tiles(interval))
    assert (tiles[0][0].start, tiles[-1][0].stop) == (interval.start, interval.stop)
    for (one, selected), (other, next_chosen) in pairwise(tiles):
        assert one.stop == other.start
        assert selected != next_chosen
    for tile, selected in tiles:
        assert not tile.is_empty
        assert key not in tile or (key in path_filter) == selected
    assert path_filter.parts(interval) == tuple(tile for tile, selected in tiles if selected)
    assert path_filter.holds(interval) == (tiles == [(interval, True)])


def test_no_filter_selects_everything() -> None:
    assert filter_for(None) is ALL
    assert ALL.is_everything
    assert (ALL.prefix, ALL.hull) == (b"", EVERYTHING)
    assert b"\xff" in ALL
    assert not PathFilter((Interval(b"", b"a"),)).is_everything


@pytest.mark.parametrize("path", ["/", "/a", "../a", "a/../", "a\0"])
def test_a_key_of_lakefs_can_be_selected(path: str) -> None:
    assert path.encode() in filter_for(["a", path])


@pytest.mark.parametrize("path", ["", "\udcff", "a" * 1025])
def test_an_impossible_key_is_rejected(path: str) -> None:
    with pytest.raises(InvalidKeyError):
        filter_for(["a", path])


@pytest.mark.parametrize("paths", [[], (), "a/"])
def test_an_empty_list_of_paths_is_rejected(paths: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"path"):
        filter_for(paths)


def test_a_message_lists_three_paths() -> None:
    assert first_paths(["a"]) == "'a'"
    assert first_paths("abc") == "'a', 'b', 'c'"
    assert first_paths("abcd") == "'a', 'b', 'c', ..."
