"""Decoding of untrusted JSON files in a lake."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sparklake.errors import CorruptFileError

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Invalid JSON, a different schema, text that is not UTF-8, and too deep nesting."""

T = TypeVar("T")


def decode_json(
    body: bytes | str, kind: type[T], what: str, remedy: str = "restore the file from a backup"
) -> T:
    """Decode a JSON file. CorruptFileError describes it as `what`."""
    try:
        return msgspec.json.decode(body, type=kind)
    except BAD_JSON as error:
        raise CorruptFileError(f"{what} is damaged ({error}): {remedy}") from error
