"""The strategy `keep-both`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from sparklake.graveler.records import MAX_KEY_BYTES
from sparklake.strategies.decisions import Both, Decision, Take
from sparklake.strategies.object_access import Objects

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = b".source"
_ROOM = 16
"""The bytes reserved for a number that makes a name unique."""


def keep_both(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    """Keep dest's object, and source's as `a.source.csv`. A long name stays a conflict."""
    keys = conflicts.column("key").to_pylist()
    has_source, has_dest = (
        conflicts.column(side).is_valid().to_pylist() for side in ("source", "dest")
    )
    return [_decision(*row) for row in zip(keys, has_source, has_dest, strict=True)]


def _decision(key: bytes, has_source: bool, has_dest: bool) -> Decision:
    if not has_source:
        return Take.DEST
    if not has_dest:
        return Take.SOURCE
    if len(key) + len(_MARK) + _ROOM > MAX_KEY_BYTES:
        return Take.CONFLICT
    return Both(marked(key, _MARK))


def kept_keys(key: bytes, target: bytes) -> Iterator[bytes]:
    """Yield keys for the kept object of `key`: `wanted`, then with numbers from 2.

    The number follows `.source`, before the extension if there is one: `_SUCCESS.source-2`.
    """
    yield target
    is_own = target == marked(key, _MARK)
    for number in count(2):
        mark = b"-%d" % number
        yield marked(key, _MARK + mark) if is_own else marked(target, mark)


def marked(key: bytes, mark: bytes) -> bytes:
    """Return a key with a marker between its name and its extension."""
    folder, slash, name = key.rpartition(b"/")
    stem, dot, extension = name.rpartition(b".")
    if not stem:
        return key + mark
    return b"".join((folder, slash, stem, mark, dot, extension))
