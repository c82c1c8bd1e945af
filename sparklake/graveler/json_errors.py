"""What a decoder of JSON raises for bytes that are none."""

from __future__ import annotations

import msgspec

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Bytes that are no JSON of the wanted form, text that is not UTF-8, or lists too deep."""
