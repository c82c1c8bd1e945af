"""Diff, apply and merge over streams of records.

Nothing here reads or writes, or holds more than a block of each stream. Keys on which the sides
agree cost no step of Python's: dictionaries find those that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sparklake.graveler.blocks import Block, Blocks, aligned
from sparklake.graveler.classification import Outcome, Strategy, classify
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import is_tombstone


class ChangeType(str, Enum):
    """Is what happened to a key between two sides."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class Change(NamedTuple):
    """Is a key whose stored values differ from left to right; None is an absent record."""

    key: bytes
    left: bytes | None
    right: bytes | None

    @property
    def type(self) -> ChangeType:
        """Returns what happened to the key."""
        if self.left is None:
            return ChangeType.ADDED
        return ChangeType.REMOVED if self.right is None else ChangeType.CHANGED


class Conflict(NamedTuple):
    """Is a key that source and dest both changed, to different ends; stored values or None."""

    key: bytes
    base: bytes | None
    source: bytes | None
    dest: bytes | None


Decide = Callable[[Conflict], bytes | None]
"""Returns the stored value that a conflict ends with, None to leave the key out."""


@dataclass(slots=True)
class ChangeCounts:
    """Counts what a stream of changes did to the side it was applied to."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    def add(self, change: Change) -> None:
        """Counts one key that differs."""
        if change.left is None:
            self.added += 1
        elif change.right is None:
            self.removed += 1
        else:
            self.changed += 1

    @property
    def total(self) -> int:
        """Returns the number of keys that differ."""
        return self.added + self.removed + self.changed


def diff(left: Blocks, right: Blocks) -> Iterator[Change]:
    """Yields the keys whose records differ between two sides, in key order."""
    for before, after in aligned(left, right):
        for key, one, other in _differences(before, after):
            yield Change(key, one, other)


def three_way_diff(base: Blocks, source: Blocks, dest: Blocks) -> Iterator[Change | Conflict]:
    """Yields what a merge of source would change in dest, and what it could not decide."""
    for sides in aligned(base, source, dest):
        for each in _disagreements(*sides):
            outcome = _classify(each)
            if outcome is Outcome.TAKE_SOURCE:
                yield Change(each.key, each.dest, each.source)
            elif outcome is Outcome.CONFLICT:
                yield each


def apply(layers: Sequence[Blocks], records: Blocks, counts: ChangeCounts) -> Iterator[Block]:
    """Yields records with staged layers over them, the newest layer first.

    A change to an equal identity is none: the committed record stays.
    """
    for block, changes in _staged_changes(layers, records):
        for change in changes:
            counts.add(change)
        changed = _changed(block, ((each.key, each.right) for each in changes))
        if changed:
            yield changed


def staged_diff(layers: Sequence[Blocks], records: Blocks) -> Iterator[Change]:
    """Yields what staged layers, the newest first, do to records."""
    for _, changes in _staged_changes(layers, records):
        yield from changes


def merge(base: Blocks, source: Blocks, dest: Blocks, decide: Decide) -> Iterator[Block]:
    """Yields the records of a three-way merge; base is looked up only where the others differ."""
    for sides in aligned(base, source, dest):
        results = ((each.key, _resolve(each, decide)) for each in _disagreements(*sides))
        merged = _changed(sides[2], results)
        if merged:
            yield merged


def take_side(strategy: Strategy) -> Decide:
    """Returns the decision by which one side wins every conflict."""
    if strategy is Strategy.SOURCE_WINS:
        return lambda conflict: conflict.source
    return lambda conflict: conflict.dest


def _staged_changes(
    layers: Sequence[Blocks], records: Blocks
) -> Iterator[tuple[Block, list[Change]]]:
    """Yields blocks of records with what the layers change in each."""
    for block, *staged in aligned(records, *layers):
        newest: dict[bytes, bytes] = {}
        for layer in reversed(staged):
            newest.update(layer)
        committed = dict(block) if newest else {}
        changes = (
            Change(key, committed.get(key), None if is_tombstone(stored) else stored)
            for key, stored in sorted(newest.items())
        )
        yield block, [each for each in changes if _differ(each.left, each.right)]


def _disagreements(base: Block, source: Block, dest: Block) -> Iterator[Conflict]:
    """Yields the three sides of each key on which source and dest differ."""
    differences = _differences(source, dest)
    ancestors = dict(base) if differences else {}
    for key, theirs, ours in differences:
        yield Conflict(key, ancestors.get(key), theirs, ours)


def _differences(left: Block, right: Block) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """Returns the keys whose identities differ, with their values, in key order."""
    if left == right:
        return []
    lefts, rights = dict(left), dict(right)
    keys = sorted({key for key, _ in lefts.items() ^ rights.items()})
    pairs = ((key, lefts.get(key), rights.get(key)) for key in keys)
    return [each for each in pairs if _differ(each[1], each[2])]


def _changed(block: Block, results: Iterable[tuple[bytes, bytes | None]]) -> Block:
    """Returns a block with other values for some keys; None removes a key."""
    changes = list(results)
    if not changes:
        return block
    records = dict(block)
    count = len(records)
    records.update((key, stored) for key, stored in changes if stored is not None)
    grown = len(records) > count
    for key, stored in changes:
        if stored is None:
            records.pop(key, None)
    # A dictionary keeps its order, but for keys that are new.
    return sorted(records.items()) if grown else list(records.items())


def _classify(sides: Conflict) -> Outcome:
    return classify(_id(sides.base), _id(sides.source), _id(sides.dest))


def _resolve(sides: Conflict, decide: Decide) -> bytes | None:
    outcome = _classify(sides)
    if outcome is Outcome.CONFLICT:
        return decide(sides)
    return sides.source if outcome is Outcome.TAKE_SOURCE else sides.dest


def _id(stored: bytes | None) -> bytes | None:
    return None if stored is None else stored[-RECORD_ID_BYTES:]


def _differ(left: bytes | None, right: bytes | None) -> bool:
    """Tells whether two stored values of one key differ in identity."""
    if left is None or right is None:
        return left is not right
    return left[-RECORD_ID_BYTES:] != right[-RECORD_ID_BYTES:]
