"""The closed list of refusal reasons for table merges."""

from __future__ import annotations

import re

FORMAT = "the format changed"
REASONS = {
    "both sides changed the same rows": (
        "both sides deleted, updated or restored the same rows",
        "source restored rows of files in which dest deleted rows",
    ),
    "both sides removed or rewrote the same files": (
        "(source|dest) removed or rewrote files (that|in which)",
        "source rewrote files, or dropped their deletes",
    ),
    "both sides overwrote the same region": (
        "both sides overwrote",
        "both sides may have overwritten",
        "both sides removed files of the (table|partition)",
    ),
    "row ids differ between the sides": ("source rewrote rows whose row ids", "without row ids"),
    "both sides changed the schema, or one that the other's files lack": (
        "both sides changed the table's schema",
        "both sides added (the column|columns with the id)",
        "both sides gave the column id",
        "(source|dest) (dropped|renamed|changed) the (column|type)",
        "overwrote rows and dropped or changed the column",
        "both sides added files to the table .*, with different types",
        "source's column .* needs other ids",
        "(source|dest)'s table (has a lower|lacks the feature)",
    ),
    "dest has some of source's changes of settings, in another order": ("in a different order",),
    "rows rewritten after a column was dropped": ("rewrote rows without the column",),
    "both sides changed a property": ("both sides changed the property",),
    "rows that a constraint of the other side excludes": ("constraint",),
    FORMAT: (
        "one side has no table",
        "(source|dest) changed it from",
        "the table was created on both sides",
    ),
    "several rows of a side have a key": ("is no key of the rows",),
    "a revert changes rows of a table with a change data feed": ("has a change data feed",),
}
_PATTERNS = {name: re.compile("|".join(each), re.DOTALL) for name, each in REASONS.items()}
_NAMES = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"")


class UnknownReasonError(AssertionError):
    """A refusal without a listed reason."""


def reason_of(text: str) -> str:
    """Return the name of the first matching reason; quoted names are ignored."""
    words = _NAMES.sub("'...'", text)
    name = next((name for name, each in _PATTERNS.items() if each.search(words)), None)
    if name is None:
        raise UnknownReasonError(f"not in the list of reasons: {text}")
    return name
