"""The rule of a three-way merge. It imports nothing, and diff and merge both stand on it.

Arguments are always in the order base, source, dest.
"""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """Is what a merge does with one key."""

    SAME = "same"
    TAKE_SOURCE = "take-source"
    TAKE_DEST = "take-dest"
    CONFLICT = "conflict"


class Strategy(str, Enum):
    """Is the side that wins every conflict."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


def classify(base: bytes | None, source: bytes | None, dest: bytes | None) -> Outcome:
    """Says what a three-way merge does with one key, by record ids; None is an absent record."""
    if source == dest:
        return Outcome.SAME
    if source == base:
        return Outcome.TAKE_DEST
    return Outcome.TAKE_SOURCE if dest == base else Outcome.CONFLICT
