"""The three-way merge rule. It imports nothing, and diff and merge both use it."""

from __future__ import annotations

from enum import Enum


class KeyOutcome(str, Enum):
    SAME = "same"
    TAKE_SOURCE = "take-source"
    TAKE_DEST = "take-dest"
    CONFLICT = "conflict"


class Strategy(str, Enum):
    """The winning side of every conflict."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


def classify(base: bytes | None, source: bytes | None, dest: bytes | None) -> KeyOutcome:
    """Return the merge outcome of one key from record ids; None is an absent record."""
    return outcome_of(source == dest, source == base, dest == base)


def outcome_of(source_is_dest: bool, source_is_base: bool, dest_is_base: bool) -> KeyOutcome:
    """Return the merge outcome for one key, given which sides are equal."""
    if source_is_dest:
        return KeyOutcome.SAME
    if source_is_base:
        return KeyOutcome.TAKE_DEST
    return KeyOutcome.TAKE_SOURCE if dest_is_base else KeyOutcome.CONFLICT
