"""Object keys and key intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import InvalidKeyError
from sparklake.graveler.keys import (
    EVERYTHING,
    Interval,
    key_path,
    object_key,
    prefix_end,
    prefix_interval,
    successor,
)
from tests.support.cases import for_each

some_keys = st.binary(min_size=1, max_size=4)


@for_each(
    "path",
    [
        "a",
        "a/b.csv",
        " ",
        "a b?#%20&=+",
        "žluť ✓/🦊.csv",
        "a\nb",
        "..a",
        "a..",
        "a/..b/c",
        ".hidden/_SUCCESS",
        "x=1/y=2",
        "k" * 1024,
        "ž" * 512,
    ],
)
def test_a_valid_path_round_trips_as_a_key(path: str) -> None:
    assert object_key(path) == path.encode()
    assert key_path(object_key(path)) == path


@for_each(
    ("path", "reason"),
    [
        ("", "empty"),
        ("k" * 1025, "1025 bytes"),
        ("ž" * 513, "1026 bytes"),
        ("\ud800", "not UTF-8"),
        ("a/\udcff.csv", "not UTF-8"),
        ("/", "leave the store's root"),
        ("/a", "leave the store's root"),
        ("..", "leave the store's root"),
        ("../a", "leave the store's root"),
        ("a/../b", "leave the store's root"),
        ("a/..", "leave the store's root"),
        ("a\0b", "leave the store's root"),
    ],
)
def test_an_invalid_path_is_rejected(path: str, reason: str) -> None:
    with pytest.raises(InvalidKeyError, match=reason):
        object_key(path)


def test_a_key_that_is_not_utf8_has_no_path() -> None:
    with pytest.raises(InvalidKeyError, match="not UTF-8"):
        key_path(b"\xff")


@given(some_keys, some_keys, st.none() | some_keys)
def test_an_interval_is_half_open(key: bytes, start: bytes, stop: bytes | None) -> None:
    assert (key in Interval(start, stop)) == (start <= key and (stop is None or key < stop))


@given(some_keys)
def test_everything_contains_every_key(key: bytes) -> None:
    assert key in EVERYTHING


@given(some_keys, some_keys)
def test_no_key_lies_between_a_key_and_its_successor(key: bytes, other: bytes) -> None:
    assert key < successor(key)
    assert not key < other < successor(key)


@given(st.lists(st.sampled_from([b"\xff", b"\xfe", b"a", b"\x00"]), max_size=4).map(b"".join))
def test_a_prefix_interval_contains_exactly_its_keys(prefix: bytes) -> None:
    interval = prefix_interval(prefix)
    for tail in (b"", b"\x00", b"a", b"\xff", b"\xff\xff\xff"):
        for key in (prefix + tail, prefix[:-1] + tail, tail):
            assert (key in interval) == key.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        (b"", None),
        (b"\xff", None),
        (b"\xff\xff", None),
        (b"a", b"b"),
        (b"a\xff", b"b"),
        (b"a/", b"a0"),
    ],
)
def test_a_prefix_ends_before_the_next_key(prefix: bytes, end: bytes | None) -> None:
    assert prefix_end(prefix) == end
