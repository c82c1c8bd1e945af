"""The content of objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ports import Content
from sparklake.stores.objects import open_object
from sparklake.udfs.objects import ObjectInfo

AHEAD_BYTES = 1 << 20


def read_body(found: ObjectInfo, ref: str) -> bytes:
    """Returns the bytes of an object that a ref holds.

    Raises MissingFileError or CorruptFileError when the file at its address is gone or has another
    size than it had when it was added.
    """
    store, key = open_object(found.address)
    with _missing(found, ref):
        body = store.get(key)
    _check_size(found, ref, len(body))
    return body


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """Is the content of an object that a ref holds, read in the parts that are asked for.

    To ask for one raises what `read_body` raises.
    """

    found: ObjectInfo
    ref: str

    def __len__(self) -> int:
        """Returns how many bytes there are."""
        return self.found.size

    def __getitem__(self, part: slice, /) -> bytes:
        """Returns some of the bytes."""
        start, stop, _ = part.indices(self.found.size)
        if start >= stop and self.found.size:
            return b""
        store, key = open_object(self.found.address)
        with _missing(self.found, self.ref):
            read = store.get_part(key, start, stop)
        _check_size(self.found, self.ref, read.size)
        return read.body


class ReadAhead:
    """Is content of which more is read than is asked for, where it is asked for in order.

    Lines are so read in large parts, and columns here and there without what lies between them.
    """

    def __init__(self, content: Content, ahead: int = AHEAD_BYTES) -> None:
        self._content = content
        self._ahead = ahead
        self._asked = -1
        self._kept = b""
        self._start = 0

    def __len__(self) -> int:
        """Returns how many bytes there are."""
        return len(self._content)

    def __getitem__(self, part: slice, /) -> bytes:
        """Returns some of the bytes."""
        start, stop, _ = part.indices(len(self))
        if start >= stop:
            return self._content[part]
        in_order, self._asked = start == self._asked, stop
        at = start - self._start
        known = self._kept[at : at + stop - start] if at >= 0 else b""
        if len(known) == stop - start:
            return known
        begin = start + len(known)
        read = self._content[begin : stop + self._ahead if in_order else stop]
        self._kept, self._start = read[stop - begin :], stop
        return known + read[: stop - begin]


@contextmanager
def _missing(found: ObjectInfo, ref: str) -> Iterator[None]:
    try:
        yield
    except MissingFileError as error:
        raise MissingFileError(
            f"{found.path!r} at {ref!r} is gone from {found.address}: it was moved or deleted "
            "outside of the lake; restore it there"
        ) from error


def _check_size(found: ObjectInfo, ref: str, size: int) -> None:
    if size != found.size:
        raise CorruptFileError(
            f"{found.path!r} at {ref!r} has {size} bytes at {found.address}, not "
            f"{found.size}: it was overwritten outside of the lake; restore what was there"
        )
