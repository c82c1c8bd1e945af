"""Deletion vectors of Delta: descriptors, and the bytes in logs and files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sparklake.errors import CorruptFileError
from sparklake.metadata.delta.paths import canonical_path, decoded_z85, encoded_z85, vector_path
from sparklake.metadata.vectors.bitmaps import Positions, decode_bitmap, positions
from sparklake.metadata.vectors.frames import FRAME_BYTES, MAGIC, encode_vector, framed, unframed

INLINE, IN_TABLE, ABSOLUTE = "i", "u", "p"
"""The places of a vector: in the log, in a file of the table, or in a file at any address."""

INLINE_BYTES = 256
"""The maximum size of a new vector in the log. Each checkpoint repeats it, next to an `add` of
about one kilobyte."""

_FORMAT = b"\x01"


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The file of a vector: a path below the table, or an absolute one."""

    path: str
    is_absolute: bool


def vector_place(descriptor: Mapping[str, Any]) -> VectorPlace | None:
    """Return the file of a vector, or None if it is in the log."""
    kind, text = (descriptor.get(name) for name in ("storageType", "pathOrInlineDv"))
    if kind == INLINE and isinstance(text, str):
        return None
    if kind == IN_TABLE and isinstance(text, str):
        return VectorPlace(vector_path(text), False)
    if kind == ABSOLUTE and isinstance(text, str):
        return VectorPlace(canonical_path(text), True)
    raise CorruptFileError(f"a deletion vector has the unknown storage type {kind!r}")


def decode_vector(descriptor: Mapping[str, Any], file: bytes | None = None) -> Positions:
    """Decode a vector, from the bytes of its file if it has one.

    Raises:
        CorruptFileError: Magic, size, CRC or cardinality are wrong.
    """
    size, text = descriptor.get("sizeInBytes"), descriptor.get("pathOrInlineDv")
    if not isinstance(size, int) or size < len(MAGIC):
        raise CorruptFileError(f"a deletion vector has the size {size!r}")
    body = (
        decoded_z85(str(text))[:size]
        if file is None
        else _slice(file, descriptor.get("offset"), size)
    )
    if len(body) != size or body[: len(MAGIC)] != MAGIC:
        raise CorruptFileError("a deletion vector does not start with its magic, or is truncated")
    rows = decode_bitmap(body[len(MAGIC) :])
    if len(rows) != descriptor.get("cardinality"):
        raise CorruptFileError(
            f"a deletion vector has {len(rows):,} rows, not {descriptor.get('cardinality')}"
        )
    return rows


def inline_rows(fields: Mapping[str, Any]) -> Positions:
    """Return the deleted rows of a file; its vector, if any, is inline in the log."""
    descriptor = fields.get("deletionVector")
    return decode_vector(descriptor) if descriptor else positions()


def _slice(file: bytes, offset: object, size: int) -> bytes:
    start = offset if isinstance(offset, int) else len(_FORMAT)
    if file[:1] != _FORMAT:
        raise CorruptFileError("a file of deletion vectors has an unknown version")
    if start < len(_FORMAT):
        raise CorruptFileError(f"a deletion vector has the offset {start}")
    data = unframed(file[start : start + FRAME_BYTES + size])
    if data is None:
        raise CorruptFileError("a deletion vector has a wrong size or CRC in its file")
    return data


def new_vectors(
    vectors: Sequence[Positions],
) -> tuple[list[Mapping[str, Any] | None], dict[str, bytes]]:
    """Return descriptors of vectors, None for empty ones, and at most one new file by its name.

    The content determines the name, so a retry writes the same file.
    """
    bodies = [encode_vector(rows) if len(rows) else b"" for rows in vectors]
    large = [body for body in bodies if len(body) > INLINE_BYTES]
    file = _FORMAT + b"".join(map(framed, large))
    uuid = UUID(bytes=hashlib.sha256(file).digest()[:16], version=5)
    start, descriptors = len(_FORMAT), list[Mapping[str, Any] | None]()
    for rows, body in zip(vectors, bodies, strict=True):
        place: dict[str, Any] = {"storageType": INLINE, "pathOrInlineDv": encoded_z85(body)}
        if len(body) > INLINE_BYTES:
            name = encoded_z85(uuid.bytes)
            place = {"storageType": IN_TABLE, "pathOrInlineDv": name, "offset": start}
            start += len(body) + FRAME_BYTES
        counts = {"sizeInBytes": len(body), "cardinality": len(rows)}
        descriptors.append({**place, **counts} if body else None)
    return descriptors, {f"deletion_vector_{uuid}.bin": file} if large else {}
