"""Numbers in as few bytes as they need, seven bits a byte, one at a time; `columns` has many."""

from __future__ import annotations

from typing import Any

_SHORT = tuple(bytes([number]) for number in range(0x80))
_LONGER = tuple(bytes([low | 0x80, high]) for high in range(0x80) for low in range(0x80))
_MOST_BITS = 64


def varint(number: int) -> bytes:
    """Returns the varint of a number, 0 or more."""
    if number < 0x80:
        return _SHORT[number]
    if number < 0x4000:
        return _LONGER[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """Returns the zigzag varint of a number, 0 or more: it leaves room for a sign."""
    return varint(2 * number)


def read_varint(data: Any, at: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it.

    Raises IndexError where it leaves the data, or has more than ten bytes.
    """
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _MOST_BITS:
            raise IndexError


def read_zigzag(data: Any, at: int) -> tuple[int, int]:
    """Returns the zigzag varint at a position, 0 or more, and the position after it."""
    number, at = read_varint(data, at)
    return number >> 1, at
