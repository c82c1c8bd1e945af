"""Deletion vectors as bytes, equal in files of Delta and of Iceberg."""

from __future__ import annotations

import struct
import zlib

from sparklake.metadata.vectors.bitmaps import Positions, encode_bitmap

MAGIC = struct.pack("<I", 1681511377)
"""The first bytes of a vector, before its bitmap."""

_NUMBER_BYTES = 4
FRAME_BYTES = 2 * _NUMBER_BYTES
"""In files, the length before a vector and the CRC after it."""


def encode_vector(rows: Positions) -> bytes:
    return MAGIC + encode_bitmap(rows)


def framed(vector: bytes) -> bytes:
    return struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def unframed(data: bytes) -> bytes | None:
    """Return the vector in a frame; None if its length or CRC is wrong."""
    vector = data[_NUMBER_BYTES:-_NUMBER_BYTES]
    return vector if data == framed(vector) else None
