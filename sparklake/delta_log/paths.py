"""File paths in a Delta table's log: percent-encoded, relative or absolute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from sparklake.delta_log.file_names import folder_of_log
from sparklake.errors import CorruptFileError

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_LOCAL = re.compile(r"^file:/+")
_DIGITS = "".join(map(chr, (*range(48, 58), *range(97, 123), *range(65, 91))))
_BASE_85 = {digit: value for value, digit in enumerate(f"{_DIGITS}.-:+=^!/*?&<>()[]{{}}@%$#")}
_UUID_DIGITS = 20


def is_relative_path(path: str) -> bool:
    return _ABSOLUTE.match(path) is None


def name_of(path: str) -> str:
    """Return the file name, relative to the table, of a relative path in a log."""
    return unquote(path)


def encoded_path(uri: str) -> str:
    """Encode a verbatim URI as a path in a log, in Hadoop's spelling.

    Delta compares it with the paths of Spark's scans, and local ones have a single slash there.
    """
    return quote(_LOCAL.sub("file:/", uri), safe="/:")


def canonical_path(path: str) -> str:
    """Return the canonical form of an absolute path in a log. Hadoop writes several."""
    return _LOCAL.sub("file:///", unquote(path))


def vector_path(name: str) -> str:
    """Return a deletion vector's path from its short name: a prefix and a UUID in Z85."""
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


def file_keys(folder: bytes, said: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the keys of an `add`'s files below the table. Other places have no key."""
    root = folder_of_log(folder)
    if is_relative_path(said["path"]):
        yield root + name_of(said["path"]).encode()
    vector = said.get("deletionVector") or {}
    if vector.get("storageType") == "u":
        yield root + vector_path(vector["pathOrInlineDv"]).encode()
