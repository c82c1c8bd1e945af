"""File paths in a Delta table's log: percent-encoded, relative or absolute."""

from __future__ import annotations

import re
from base64 import b85decode, b85encode
from collections.abc import Iterator, Mapping
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from sparklake.errors import CorruptFileError
from sparklake.metadata.formats import table_of

PLAIN = "/:=@,;!$&'()*+~._-"
"""The characters in a path, besides letters and digits, that Hadoop does not encode."""

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_LOCAL = re.compile(r"^file:/+")
_Z85 = f"{digits}{ascii_lowercase}{ascii_uppercase}.-:+=^!/*?&<>()[]{{}}@%$#"
_B85 = f"{digits}{ascii_uppercase}{ascii_lowercase}!#$%&()*+-;<=>?@^_`{{|}}~"
_TO_B85, _TO_Z85 = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)
_UUID_DIGITS = 20
_WORD_BYTES, _WORD_DIGITS = 4, 5


def is_relative_path(path: str) -> bool:
    return _ABSOLUTE.match(path) is None


def name_of(path: str) -> str:
    """Decode a relative path in a log to a file name below the table."""
    return unquote(path)


def encoded_path(uri: str) -> str:
    """Encode a URI as a path in a log, as Spark's scans do: local ones have a single slash."""
    return quote(_LOCAL.sub("file:/", uri), safe=PLAIN)


def canonical_path(path: str) -> str:
    """Convert an absolute path in a log from any of Hadoop's forms to the canonical one."""
    return _LOCAL.sub("file:///", unquote(path))


def decoded_z85(text: str) -> bytes:
    if not set(text) <= set(_Z85) or len(text) % _WORD_DIGITS:
        raise CorruptFileError(f"{text[:100]!r} is not in the form Z85")
    try:
        return b85decode(text.translate(_TO_B85))
    except ValueError as error:
        raise CorruptFileError(f"{text[:100]!r} is not in the form Z85: {error}") from error


def encoded_z85(body: bytes) -> str:
    """Encode bytes, padded with zeros to whole words."""
    padding = bytes(-len(body) % _WORD_BYTES)
    return b85encode(body + padding).decode().translate(_TO_Z85)


def vector_path(name: str) -> str:
    """Decode the short name of a deletion vector: a prefix and a UUID in Z85."""
    prefix, text = name[:-_UUID_DIGITS], name[-_UUID_DIGITS:]
    try:
        uuid = UUID(bytes=decoded_z85(text))
        return f"{prefix}/deletion_vector_{uuid}.bin".lstrip("/")
    except (CorruptFileError, ValueError) as error:
        raise CorruptFileError(
            f"{name!r} is not the name of a deletion vector of a Delta table"
        ) from error


def file_keys(folder: bytes, fields: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the keys of an `add`'s files. Files outside of the table have none."""
    root = table_of(folder)
    if is_relative_path(fields["path"]):
        yield root + name_of(fields["path"]).encode()
    vector = fields.get("deletionVector") or {}
    if vector.get("storageType") == "u":
        yield root + vector_path(vector["pathOrInlineDv"]).encode()
