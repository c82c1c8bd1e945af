"""Patterns of branch names, in which `*` stands for any characters and `?` for one."""

from __future__ import annotations

from sparklake.errors import InvalidInputError
from sparklake.graveler.globs import name_pattern
from sparklake.graveler.refs import MAX_NAME_CHARACTERS, is_part_of_name

_ANY, _ONE = "*", "?"


def check_pattern(pattern: str) -> None:
    """Raises InvalidInputError for a pattern that fits no branch."""
    literal = pattern.replace(_ANY, "").replace(_ONE, "")
    if not pattern or not is_part_of_name(literal):
        raise InvalidInputError(
            f"{pattern!r} fits no branch: write a name, with * for any characters and ? "
            "for one; no branch has a / in its name"
        )
    if len(pattern) > MAX_NAME_CHARACTERS:
        raise InvalidInputError(f"a pattern has at most {MAX_NAME_CHARACTERS} characters")


def fits(pattern: str, name: str) -> bool:
    """Tells whether a pattern fits all of a name, in time bounded by the product of the lengths."""
    return name_pattern(pattern).fullmatch(name) is not None
