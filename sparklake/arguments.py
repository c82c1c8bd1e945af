"""What people type besides URIs, for the command and the jobs alike."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import InvalidInputError


def labels(given: Sequence[str] | None) -> dict[str, str]:
    """Returns labels from `KEY=VALUE` texts; raises InvalidInputError."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"a label is KEY=VALUE, not {text!r}")
        found[name] = value
    return found
