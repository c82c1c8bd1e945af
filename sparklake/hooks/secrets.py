"""Secrets of the environment: named by files of hooks, never kept."""

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
"""How many characters are kept of what a hook says."""

RAW_BYTES = 64 * 1024
"""How many bytes of it are looked at: more than are kept, so that no part of a secret is left."""


@dataclass(slots=True)
class Secrets:
    """Gives out variables that settings allow, and takes them out of what is kept."""

    patterns: Sequence[str]
    _given: set[str] = field(default_factory=set)

    def filled(self, text: str) -> str:
        """Return a text with its `{{ ENV.NAME }}` filled in; raise ValueError."""
        return _VARIABLE.sub(lambda match: self._value(match[1]), text)

    def variables(self) -> Mapping[str, str]:
        """Return all variables that may be seen."""
        seen = {name: value for name, value in os.environ.items() if self._may_see(name)}
        self._given.update(seen.values())
        return seen

    def kept(self, text: str, *, is_cut: bool = False) -> str:
        """Return the end of a text without secrets; `is_cut` says that there was more of it."""
        for value in sorted(self._spellings(), key=len, reverse=True):
            text = text.replace(value, _HIDDEN)
        if is_cut:
            # A secret that was cut in two is not found at the beginning or at the end.
            longest = max(map(len, self._spellings()), default=0)
            text = text[longest : len(text) - longest]
        # The ref store keeps UTF-8 without NUL; a hook may return or raise any text.
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
                f"the variable {name} may not be seen by hooks: set hooks_env in the settings, or "
                "SPARKLAKE_HOOKS_ENV, if it may"
            )
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the variable {name} is not set")
        self._given.add(value)
        return value
