"""Secrets of the environment: hook files refer to them, results never have them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from sparklake.graveler.globs import is_word

_VARIABLE = re.compile(r"\{\{\s*ENV\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_HIDDEN = "***"
MAX_OUTPUT = 8 * 1024
"""The number of characters kept of a hook's output."""

RAW_BYTES = 64 * 1024
"""The bytes searched for secrets.

They are more than are kept, to remove secrets cut in two.
"""


@dataclass(slots=True)
class Secrets:
    """The variables that settings allow, and their removal from kept output."""

    patterns: Sequence[str]
    _given: set[str] = field(default_factory=set)

    def filled(self, text: str) -> str:
        """Return a string with `{{ ENV.NAME }}` replaced; raise ValueError."""
        return _VARIABLE.sub(lambda match: self._value(match[1]), text)

    def variables(self) -> Mapping[str, str]:
        """Return all allowed variables."""
        seen = {name: value for name, value in os.environ.items() if self._may_see(name)}
        self._given.update(seen.values())
        return seen

    def kept(self, text: str, *, is_cut: bool = False) -> str:
        """Return the end of a string without secrets. `is_cut` means that the string was cut."""
        for value in sorted(self._spellings(), key=len, reverse=True):
            text = text.replace(value, _HIDDEN)
        if is_cut:
            # A secret cut in two is not found, so the margins of a cut string are
            # removed.
            longest = max(map(len, self._spellings()), default=0)
            text = text[longest : len(text) - longest]
        # The ref store accepts UTF-8 without NUL, but a hook may return or raise any
        # string.
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")[-MAX_OUTPUT:]
        return text.encode(errors="backslashreplace").decode()

    def _spellings(self) -> set[str]:
        given = {each for each in self._given if each}
        return given | {quote(each) for each in given} | {quote_plus(each) for each in given}

    def _may_see(self, name: str) -> bool:
        return any(is_word(each, name) for each in self.patterns)

    def _value(self, name: str) -> str:
        if not self._may_see(name):
            raise ValueError(
                f"hooks may not see the variable {name}: to allow it, set hooks_env in the "
                "settings or SPARKLAKE_HOOKS_ENV"
            )
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the variable {name} is not set")
        self._given.add(value)
        return value
