"""Hashes of columns."""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa
import pytest

from sparklake.graveler.blocks.columns import sha256_each

ITEMS = [
    b"",
    b"\0",
    b"a" * 55,
    b"a" * 56,
    b"a" * 64,
    *(b"%d" % number * 9 for number in range(5000)),
]


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, len(ITEMS)])
def test_each_item_is_hashed_separately(count: int) -> None:
    items = pa.array([b"before", *ITEMS[:count], b"after"], pa.binary()).slice(1, count)
    digests = sha256_each(items)
    assert digests.type == pa.binary()
    assert digests.to_pylist() == [sha256(item).digest() for item in ITEMS[:count]]
