"""Secrets from the environment for hook files, masked in results."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import quote, quote_plus

_VARIABLE = re.compile(r"\{\{\s*ENV\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_HIDDEN = "***"
MAX_OUTPUT = 8 * 1024
"""The number of retained characters of a hook's output."""

RAW_BYTES = 64 * 1024
"""The bytes to search for secrets: more than are retained, to find truncated secrets."""


@dataclass(slots=True)
class Secrets:
    patterns: Sequence[str]
    _values: set[str] = field(default_factory=set)

    def filled(self, text: str) -> str:
        return _VARIABLE.sub(lambda match: self._value(match[1]), text)

    def variables(self) -> Mapping[str, str]:
        allowed = {name: value for name, value in os.environ.items() if self._may_see(name)}
        self._values.update(allowed.values())
        return allowed

    def kept(self, text: str, *, is_cut: bool = False) -> str:
        """Return the end of a string without secrets. `is_cut` reports a truncated string."""
        values = {each for each in self._values if each}
        spellings = values | {encode(each) for each in values for encode in (quote, quote_plus)}
        for spelling in sorted(spellings, key=len, reverse=True):
            text = text.replace(spelling, _HIDDEN)
        if is_cut:
            # Truncated secrets are not found, so the margins of a truncated string go.
            longest = max(map(len, spellings), default=0)
            text = text[longest : len(text) - longest]
        # The ref store accepts UTF-8 without NUL, but a hook may return or raise any string.
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")[-MAX_OUTPUT:]
        return text.encode(errors="backslashreplace").decode()

    def _may_see(self, name: str) -> bool:
        return any(fnmatchcase(name, each) for each in self.patterns)

    def _value(self, name: str) -> str:
        if not self._may_see(name):
            raise ValueError(
                f"hooks may not see the variable {name}: to allow it, set hooks_env in the "
                "settings or SPARKLAKE_HOOKS_ENV"
            )
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the variable {name} is not set")
        self._values.add(value)
        return value
