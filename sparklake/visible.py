"""Texts without characters that a terminal obeys.

Names of files, keys and messages come from others. An escape sequence in one could hide or forge
what a terminal shows.
"""

from __future__ import annotations

_KEPT = "\n\t"


def visible_line(text: str) -> str:
    """Return a text on one line, with escapes for all characters that are not printable."""
    return _escaped(text, "")


def visible_text(text: str) -> str:
    """Return a text in which only line ends and tabs are left of what is not printable."""
    return _escaped(text, _KEPT)


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )
