"""Escaping of untrusted names: an escape sequence could forge terminal output."""

from __future__ import annotations

import shlex

CHECKSUM_DIGITS = 8
"""The number of digits of a checksum shown to people, and of an id in a notebook."""

COMMIT_DIGITS = 12
"""The number of digits of a commit id shown to people in text."""

_KEPT = "\n\t"


def visible_line(text: str) -> str:
    """Return a string on one line, with all unprintable characters escaped."""
    return _escaped(text, "")


def visible_text(text: str) -> str:
    """Return a string with unprintable characters escaped, except line breaks and tabs."""
    return _escaped(text, _KEPT)


def shell_word(text: str) -> str:
    """Quote a string as one shell word. Unprintable characters require bash or zsh."""
    if text.isprintable():
        return shlex.quote(text)
    word = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}"
        for byte in text.encode(errors="surrogateescape")
    )
    return f"$'{word}'"


def _escaped(text: str, allowed: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in allowed else each.encode("unicode_escape").decode()
        for each in text
    )


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 object", "1,200 objects"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
