"""64-bit Roaring bitmaps in their portable form, as ascending arrays of positions.

The form is https://github.com/RoaringBitmap/RoaringFormatSpec with its extension to 64 bits. NumPy
parses it with a check of each bound, because native readers trust stored bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sparklake.errors import CorruptFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Positions: TypeAlias = "NDArray[np.uint64]"
"""Row positions in a file, in ascending order."""

MAX_POSITIONS = 1 << 26
"""The maximum number of positions in memory: 512 MiB."""

_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
_OFFSETS_FROM = 4
"""The number of containers from which a bitmap with runs has offsets."""

_CONTAINER = 1 << 16
_MAX_ARRAY = 4096
_BITS_BYTES = _CONTAINER // 8


def positions(*rows: int) -> Positions:
    return np.unique(np.array(rows, np.uint64))


# --- decode ---------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)
        self._at = 0

    def array(self, kind: str, count: int) -> NDArray[np.generic]:
        size = np.dtype(kind).itemsize * count
        part = self._body[self._at : self._at + size]
        if len(part) < size:
            raise CorruptFileError("a Roaring bitmap is truncated")
        self._at += size
        return np.frombuffer(part, kind)

    def number(self, kind: str) -> int:
        return int(self.array(kind, 1)[0])

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._body)


def decode_bitmap(body: bytes) -> Positions:
    """Decode a whole serialized bitmap.

    Raises:
        CorruptFileError: The bytes are no bitmap, or have more than MAX_POSITIONS positions.
    """
    reader = _Reader(body)
    parts = list(_bitmaps(reader))
    if not reader.is_at_end:
        raise CorruptFileError("a Roaring bitmap has trailing bytes")
    rows = np.concatenate([np.zeros(0, np.uint64), *parts])
    _check_ascending(rows)
    return rows


def _bitmaps(reader: _Reader) -> Iterator[Positions]:
    total = 0
    for _ in range(reader.number("<u8")):
        high = np.uint64(reader.number("<u4") << 32)
        for low in _containers(reader, MAX_POSITIONS - total):
            total += len(low)
            yield low | high


def _containers(reader: _Reader, limit: int) -> Iterator[Positions]:
    cookie = reader.number("<u4")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(reader.array("u1", (count + 7) // 8).astype("u1"), bitorder="little")
    elif cookie == _WITHOUT_RUNS:
        count = reader.number("<u4")
        if count > _CONTAINER:
            raise CorruptFileError(f"a Roaring bitmap has {count:,} containers")
        flags = np.zeros(count, np.uint8)
    else:
        raise CorruptFileError(f"a Roaring bitmap has the unknown cookie {cookie}")
    header = reader.array("<u2", 2 * count).astype(np.uint64).reshape(-1, 2)
    sizes = header[:, 1] + np.uint64(1)
    if int(sizes.sum()) > limit:
        raise CorruptFileError(f"a Roaring bitmap has more than {MAX_POSITIONS:,} positions")
    if cookie == _WITHOUT_RUNS or count >= _OFFSETS_FROM:
        reader.array("<u4", count)  # The containers follow each other, in order.
    for (key, _), size, is_run in zip(header, sizes, flags[:count], strict=True):
        yield _container(reader, int(size), bool(is_run)) | (key << np.uint64(16))


def _container(reader: _Reader, size: int, is_run: bool) -> Positions:
    rows: NDArray[Any]
    if is_run:
        runs = reader.array("<u2", 2 * reader.number("<u2")).astype(np.int64).reshape(-1, 2)
        starts, lengths = runs[:, 0], runs[:, 1] + 1
        if int(lengths.sum()) != size or bool((starts + lengths > _CONTAINER).any()):
            raise CorruptFileError("a Roaring bitmap has wrong runs")
        before = np.cumsum(lengths) - lengths
        rows = np.repeat(starts - before, lengths) + np.arange(size)
    elif size <= _MAX_ARRAY:
        rows = reader.array("<u2", size)
    else:
        bits = np.unpackbits(reader.array("u1", _BITS_BYTES).astype("u1"), bitorder="little")
        rows = np.flatnonzero(bits)
    if len(rows) != size:
        raise CorruptFileError(f"a Roaring bitmap has {len(rows)} positions instead of {size}")
    return rows.astype(np.uint64)


def _check_ascending(rows: Positions) -> None:
    if bool((rows[1:] <= rows[:-1]).any()):
        raise CorruptFileError("a Roaring bitmap is not in ascending order")


# --- encode ---------------------------------------------------------------------------------------


def encode_bitmap(rows: Positions) -> bytes:
    """Serialize positions, each container in its smallest form. Equal positions, equal bytes."""
    parts = _split(rows, 32)
    bodies = (struct.pack("<I", high) + _encode_32(low) for high, low in parts)
    return struct.pack("<Q", len(parts)) + b"".join(bodies)


def _split(rows: Positions, bits: int) -> list[tuple[int, Positions]]:
    """Group positions by their high bits."""
    high = rows >> np.uint64(bits)
    keys, starts = np.unique(high, return_index=True)
    groups = np.split(rows & np.uint64((1 << bits) - 1), starts[1:]) if len(rows) else []
    return list(zip(map(int, keys), groups, strict=True))


def _encode_32(rows: Positions) -> bytes:
    parts = _split(rows, 16)
    bodies = [_encode_container(low.astype("<u2")) for _, low in parts]
    header = struct.pack(
        f"<{2 * len(parts)}H", *(each for key, low in parts for each in (key, len(low) - 1))
    )
    flags = np.array([is_run for is_run, _ in bodies], np.uint8)
    if flags.any():
        packed = np.packbits(flags, bitorder="little").tobytes()
        start = struct.pack("<I", _WITH_RUNS | (len(parts) - 1) << 16) + packed
    else:
        start = struct.pack("<II", _WITHOUT_RUNS, len(parts))
    if not flags.any() or len(parts) >= _OFFSETS_FROM:
        at = len(start) + len(header) + 4 * len(parts)
        ends = np.cumsum([at, *(len(body) for _, body in bodies)])
        header += ends[:-1].astype("<u4").tobytes()
    return start + header + b"".join(body for _, body in bodies)


def _encode_container(rows: NDArray[np.uint16]) -> tuple[bool, bytes]:
    """Return whether a container is one of runs, and its bytes."""
    gaps = np.flatnonzero(np.diff(rows.astype(np.int64)) > 1)
    starts = rows[np.concatenate(([0], gaps + 1))]
    ends = rows[np.concatenate((gaps, [len(rows) - 1]))]
    if 2 + 4 * len(starts) < min(2 * len(rows), _BITS_BYTES):
        runs = np.stack((starts, ends - starts), axis=1).astype("<u2")
        return True, struct.pack("<H", len(starts)) + runs.tobytes()
    if len(rows) <= _MAX_ARRAY:
        return False, rows.astype("<u2").tobytes()
    bits = np.zeros(_CONTAINER, np.uint8)
    bits[rows] = 1
    return False, np.packbits(bits, bitorder="little").tobytes()
