"""The errors that a JSON decoder raises for invalid input."""

from __future__ import annotations

import msgspec

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Invalid JSON or another schema, text that is not UTF-8, and too deep nesting."""
