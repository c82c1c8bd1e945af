"""Rewrites the paths in a Delta log: what is relative to its table becomes an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import msgspec
import pyarrow as pa

from sparklake.errors import CorruptFileError

Resolve = Callable[[pa.Array], pa.Array]
"""Returns the addresses of files, percent-encoded, from their paths below the table."""

_FILES = ("add", "remove", "cdc")
_VECTOR = "deletionVector"
_ABSOLUTE = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:")
_DIGITS = "".join(map(chr, (*range(48, 58), *range(97, 123), *range(65, 91))))
_BASE_85 = {digit: value for value, digit in enumerate(f"{_DIGITS}.-:+=^!/*?&<>()[]{{}}@%$#")}
_UUID_DIGITS = 20

_Slot = tuple[dict[str, Any], str, str]
"""Is a mapping, a name in it, and the path below the table whose address is to be there."""


def resolved_commit(body: bytes, resolve: Resolve) -> bytes:
    """Returns the actions of a commit with addresses for paths; raises CorruptFileError."""
    try:
        actions = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise CorruptFileError(f"a commit of a Delta log is no JSON: {error}") from error
    slots = [
        slot
        for action in actions
        for kind in _FILES
        if isinstance(action.get(kind), dict)
        for slot in _slots(action[kind])
    ]
    _fill(slots, resolve)
    return b"".join(msgspec.json.encode(action) + b"\n" for action in actions)


def resolved_batch(batch: pa.RecordBatch, resolve: Resolve) -> pa.RecordBatch:
    """Returns the actions of a checkpoint with addresses for paths."""
    for name in _FILES:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = _resolved_files(batch.column(at), resolve)
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch


def _resolved_files(files: pa.StructArray, resolve: Resolve) -> pa.StructArray:
    """Returns files with addresses; all else of them stays as it is."""
    fields = [each for each in files.type if each.name in ("path", _VECTOR)]
    chosen = pa.StructArray.from_arrays(
        [files.field(each.name) for each in fields], fields=fields, mask=files.is_null()
    )
    rows = chosen.to_pylist()
    _fill([slot for row in rows if row is not None for slot in _slots(row)], resolve)
    resolved = pa.array(rows, chosen.type)
    parts = [
        resolved.field(each.name) if each in fields else files.field(each.name)
        for each in files.type
    ]
    return pa.StructArray.from_arrays(parts, fields=list(files.type), mask=files.is_null())


def _slots(file: dict[str, Any]) -> Iterator[_Slot]:
    """Yields where a file's action has relative paths; those of deletion vectors become absolute.

    A vector's place is part of what tells one state of a file from another, so that it is rewritten
    wherever it comes.
    """
    path, vector = file.get("path"), file.get(_VECTOR)
    if path is not None and not _ABSOLUTE.match(path):
        yield file, "path", unquote(path)
    if vector and vector["storageType"] == "u":
        vector["storageType"] = "p"
        yield vector, "pathOrInlineDv", vector_path(vector["pathOrInlineDv"])


def _fill(slots: list[_Slot], resolve: Resolve) -> None:
    addresses = resolve(pa.array([relative for _, _, relative in slots], pa.string()))
    for (holder, name, _), address in zip(slots, addresses.to_pylist(), strict=True):
        holder[name] = address


def vector_path(name: str) -> str:
    """Returns the path of a deletion vector from its short name: a prefix, and a UUID in Z85."""
    prefix, digits = name[:-_UUID_DIGITS], name[-_UUID_DIGITS:]
    if len(digits) < _UUID_DIGITS:
        raise CorruptFileError(f"{name!r} names no deletion vector of a Delta table")
    try:
        value = b"".join(_four_bytes(digits[at : at + 5]) for at in range(0, _UUID_DIGITS, 5))
    except (KeyError, OverflowError) as error:
        raise CorruptFileError(f"{name!r} names no deletion vector of a Delta table") from error
    return f"{prefix}/deletion_vector_{UUID(bytes=value)}.bin".lstrip("/")


def _four_bytes(digits: str) -> bytes:
    value = 0
    for digit in digits:
        value = value * 85 + _BASE_85[digit]
    return value.to_bytes(4, "big")
