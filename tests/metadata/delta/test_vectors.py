"""Descriptors and files of deletion vectors."""

from __future__ import annotations

from typing import Any

import pytest

from sparklake.errors import CorruptFileError
from sparklake.metadata.delta.vectors import (
    INLINE_BYTES,
    VectorPlace,
    decode_vector,
    new_vectors,
    vector_place,
)
from sparklake.metadata.vectors.bitmaps import positions

TEXT = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
DESCRIPTOR = {"storageType": "i", "pathOrInlineDv": TEXT, "sizeInBytes": 44, "cardinality": 6}


def test_an_inline_vector_is_encoded_and_decoded() -> None:
    rows = positions(3, 4, 7, 11, 18, 29)
    assert decode_vector(DESCRIPTOR).tolist() == rows.tolist()
    assert new_vectors([rows]) == ([DESCRIPTOR], {})


def test_small_vectors_are_inline_and_large_ones_share_a_file() -> None:
    large = [positions(*range(start, 2000, 3)) for start in range(2)]
    small, none = positions(1, 2**40), positions()
    descriptors, files = new_vectors([large[0], small, none, large[1]])
    assert new_vectors([large[0], small, none, large[1]]) == (descriptors, files)
    ((name, body),) = files.items()
    first, inline, empty, second = descriptors
    assert first
    assert inline
    assert second
    assert empty is None
    assert vector_place(inline) is None
    assert inline["sizeInBytes"] <= INLINE_BYTES
    for each, rows in ((first, large[0]), (second, large[1])):
        assert vector_place(each) == VectorPlace(name, False)
        assert decode_vector(each, body).tolist() == rows.tolist()
    assert new_vectors(large[:1])[1].keys() != {name}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cardinality": 5}, "has 6 rows, not 5"),
        ({"sizeInBytes": 43}, "truncated"),
        ({"sizeInBytes": 48}, "truncated"),
        ({"sizeInBytes": None}, "size None"),
        ({"pathOrInlineDv": "0" + TEXT[1:]}, "magic"),
        ({"pathOrInlineDv": TEXT[:-1]}, "Z85"),
        ({"pathOrInlineDv": "~" + TEXT[1:]}, "Z85"),
    ],
)
def test_a_damaged_inline_vector_is_corrupt(change: dict[str, Any], words: str) -> None:
    with pytest.raises(CorruptFileError, match=words):
        decode_vector({**DESCRIPTOR, **change})


def test_a_damaged_vector_file_is_corrupt() -> None:
    ([descriptor], files) = new_vectors([positions(*range(0, 3000, 3))])
    (body,) = files.values()
    assert descriptor is not None
    for at in range(len(body)):
        with pytest.raises(CorruptFileError):
            decode_vector(descriptor, body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        with pytest.raises(CorruptFileError):
            decode_vector(descriptor, body[:at])
    for offset in (0, -1, 2, len(body)):
        with pytest.raises(CorruptFileError):
            decode_vector({**descriptor, "offset": offset}, body)


def test_the_location_of_a_vector_is_parsed() -> None:
    absolute = {"storageType": "p", "pathOrInlineDv": "file:/a/b%20c.bin"}
    assert vector_place(absolute) == VectorPlace("file:///a/b c.bin", True)
    with pytest.raises(CorruptFileError, match="storage type 'x'"):
        vector_place({"storageType": "x", "pathOrInlineDv": ""})
