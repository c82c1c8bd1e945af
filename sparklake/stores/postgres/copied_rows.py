"""Copies of staged rows in a local temporary file, to be read without a connection."""

from __future__ import annotations

import struct
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from threading import Lock

from sparklake.graveler.records import Record

_MEMORY_BYTES = 8 << 20
"""The maximum size of a copy in memory, in bytes; a larger one is a file."""

_READ_BYTES = 1 << 20
_LENGTHS = struct.Struct("<II")


class CopiedRows:
    """The records of staging layers, by layer. Several readers may read concurrently."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = Lock()
        self._places: dict[int, tuple[int, int]] = {}

    def add(self, layer_id: int, records: Iterable[Record]) -> None:
        """Copy the records of a layer. Readers start after the last copy."""
        start = self._file.tell()
        for key, value in records:
            self._file.write(_LENGTHS.pack(len(key), len(value)))
            self._file.write(key)
            self._file.write(value)
        self._places[layer_id] = start, self._file.tell()

    def read(self, layer_id: int) -> Iterator[Record]:
        """Stream the records of a layer in the order in which they were added."""
        at, end = self._places[layer_id]
        tail = b""
        while at < end:
            with self._lock:
                self._file.seek(at)
                chunk = self._file.read(min(_READ_BYTES, end - at))
            at += len(chunk)
            tail += chunk
            start = 0
            while (record := _record(tail, start)) is not None:
                yield record
                start += _LENGTHS.size + len(record[0]) + len(record[1])
            tail = tail[start:]


def _record(data: bytes, start: int) -> Record | None:
    """Return the record at a position, unless it is incomplete."""
    body = start + _LENGTHS.size
    if len(data) < body:
        return None
    key_bytes, value_bytes = _LENGTHS.unpack_from(data, start)
    end = body + key_bytes + value_bytes
    if len(data) < end:
        return None
    return data[body : body + key_bytes], data[body + key_bytes : end]
