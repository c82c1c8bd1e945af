"""Roaring bitmaps, against the bytes of CRoaring, and damaged ones."""

from __future__ import annotations

import struct
import zlib
from base64 import b85decode
from random import Random

import pytest

from sparklake.errors import CorruptFileError
from sparklake.metadata.vectors import bitmaps
from sparklake.metadata.vectors.bitmaps import decode_bitmap, encode_bitmap, positions
from tests.support.cases import for_each

OF_CROARING = {
    "empty": ([], "c-muNfB*mh2mk>"),
    "one": ([7], "c-muRKmaQP1_nkbTL6gJ82|_T0E7"),
    "array": (
        [0, 5, 70000, 2**32 + 1, 2**40],
        "c-muTKmaQP1_mZDixCJJ7$ksL2Fzz=C=g_Xs$hhw767XQA#_m&1^`})0wn",
    ),
    "runs": (
        [*range(100, 5100), *range(65536, 131082)],
        "c-muRKmcn4CI)r}hIU~_hX4PW7&sXi8B)MJ1|T0qaxwq_ZaM}c",
    ),
    "bits": (
        [*range(0, 20000, 2)],
        "c-rm8F%1A93;@Aa0k~jg#s~hbKv+m{Kyo*HKI0laBF~jpcP9V<-w6N!0001ZERqR6^Z",
    ),
}
"""Positions, and what pyroaring 1.2 makes of them after `run_optimize`, compressed."""


@pytest.mark.parametrize("name", OF_CROARING)
def test_bitmaps_equal_those_of_croaring(name: str) -> None:
    rows, text = OF_CROARING[name]
    body = zlib.decompress(b85decode(text))
    assert decode_bitmap(body).tolist() == rows
    assert encode_bitmap(positions(*rows)) == body


def random_rows(random: Random) -> list[int]:
    rows = set[int]()
    for _ in range(random.randint(0, 4)):
        start = random.choice([0, 65536, 5 * 65536, 2**32, 7 * 2**32 + 9 * 65536])
        first = random.randrange(60_000)
        rows.update(
            random.choice(
                [
                    range(start, start + 65536),
                    range(start + first, start + first + random.randint(1, 5000)),
                    [start + random.randrange(65536) for _ in range(random.randint(1, 20))],
                    [start + random.randrange(65536) for _ in range(9000)],
                ]
            )
        )
    return sorted(rows)


def test_random_positions_round_trip_and_damage_is_detected() -> None:
    random = Random(1)
    damaged = 0
    for _ in range(60):
        rows = random_rows(random)
        body = encode_bitmap(positions(*rows))
        assert decode_bitmap(body).tolist() == rows
        for _ in range(30):
            other = bytearray(body)
            other[random.randrange(min(len(body), 60))] ^= 1 << random.randrange(8)
            del other[random.choice([len(other), random.randrange(len(other))]) :]
            try:
                rows_read = decode_bitmap(bytes(other)).tolist()
            except CorruptFileError:
                damaged += 1
            else:
                assert rows_read == sorted(set(rows_read))
    assert damaged > 1000


def of_container(count: int, body: bytes, cookie: int = 12346) -> bytes:
    """Return a bitmap of one container, with runs if the cookie has them."""
    if cookie == 12347:
        return struct.pack("<QIIBHH", 1, 0, cookie, 1, 0, count - 1) + body
    return struct.pack("<QIIIHHI", 1, 0, cookie, 1, 0, count - 1, 16) + body


@for_each(
    ("body", "words"),
    [
        (b"", "truncated"),
        (struct.pack("<Q", 1 << 60), "truncated"),
        (struct.pack("<QII", 1, 0, 99), "unknown cookie 99"),
        (struct.pack("<QIII", 1, 0, 12346, 1 << 31), "containers"),
        (of_container(2, struct.pack("<HH", 5, 5)), "ascending"),
        (of_container(2, struct.pack("<HH", 5, 3)), "ascending"),
        (of_container(2, struct.pack("<HHH", 3, 5, 7)), "trailing"),
        (of_container(5000, bytes(8192)), "0 positions instead of 5000"),
        (of_container(3, struct.pack("<HHH", 1, 5, 3), 12347), "wrong runs"),
        (of_container(3, struct.pack("<HHH", 1, 65535, 2), 12347), "wrong runs"),
        (of_container(4, struct.pack("<HHHHH", 2, 5, 1, 6, 1), 12347), "ascending"),
    ],
)
def test_damaged_bitmaps_are_rejected(body: bytes, words: str) -> None:
    with pytest.raises(CorruptFileError, match=words):
        decode_bitmap(body)


def test_a_few_bytes_never_become_a_huge_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmaps, "MAX_POSITIONS", 100_000)
    body = encode_bitmap(positions(*range(131072)))
    assert len(body) < 100
    with pytest.raises(CorruptFileError, match="more than 100,000 positions"):
        decode_bitmap(body)
