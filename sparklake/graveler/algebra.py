"""Diff, apply and merge over sorted streams of records.

Streams are of `(key, stored value)` in ascending key order. Nothing here reads, writes or holds
more than one record a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import merge as merge_sorted
from typing import NamedTuple

from sparklake.graveler.classification import Outcome, Strategy, classify
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import Record, is_tombstone


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

    def add(self, before: bytes | None, after: bytes | None) -> None:
        """Counts one key that differs."""
        if before is None:
            self.added += 1
        elif after is None:
            self.removed += 1
        else:
            self.changed += 1

    @property
    def total(self) -> int:
        """Returns the number of keys that differ."""
        return self.added + self.removed + self.changed


def diff(left: Iterable[Record], right: Iterable[Record]) -> Iterator[Change]:
    """Yields the keys whose records differ between two sides."""
    for key, before, after in _outer_join(left, right):
        if _differ(before, after):
            yield Change(key, before, after)


def three_way_diff(
    base: Iterable[Record], source: Iterable[Record], dest: Iterable[Record]
) -> Iterator[Change | Conflict]:
    """Yields what a merge of source would change in dest, and what it could not decide."""
    lookup = _lookup(base)
    for key, theirs, ours in _outer_join(source, dest):
        if _differ(theirs, ours):
            ancestor = lookup(key)
            outcome = classify(_id(ancestor), _id(theirs), _id(ours))
            if outcome is Outcome.TAKE_SOURCE:
                yield Change(key, ours, theirs)
            elif outcome is Outcome.CONFLICT:
                yield Conflict(key, ancestor, theirs, ours)


def apply(
    changes: Iterable[Record], records: Iterable[Record], counts: ChangeCounts
) -> Iterator[Record]:
    """Yields records with staged changes over them; a change to an equal identity is none."""
    for key, staged, committed in _outer_join(changes, records):
        after = _effective(staged, committed)
        if after is not committed:
            counts.add(committed, after)
        if after is not None:
            yield key, after


def staged_diff(changes: Iterable[Record], records: Iterable[Record]) -> Iterator[Change]:
    """Yields what staged changes do to records."""
    for key, staged, committed in _outer_join(changes, records):
        after = _effective(staged, committed)
        if after is not committed:
            yield Change(key, committed, after)


def _effective(staged: bytes | None, committed: bytes | None) -> bytes | None:
    """Returns what a key holds once it is committed: the committed value itself if no change."""
    if staged is None:
        return committed
    after = None if is_tombstone(staged) else staged
    return after if _differ(committed, after) else committed


def overlay(layers: Sequence[Iterable[Record]]) -> Iterator[Record]:
    """Yields the staged records of layers, newest layer first, the newest of each key alone."""
    if len(layers) == 1:
        # One layer needs no comparing, and is the usual case.
        yield from layers[0]
        return
    labelled = [_labelled(age, layer) for age, layer in enumerate(layers)]
    last = None
    for key, _, stored in merge_sorted(*labelled):
        if key != last:
            yield key, stored
            last = key


def merge(
    base: Iterable[Record],
    source: Iterable[Record],
    dest: Iterable[Record],
    decide: Decide,
) -> Iterator[Record]:
    """Yields the records of a three-way merge; base is looked up only where the others differ."""
    lookup = _lookup(base)
    for key, theirs, ours in _outer_join(source, dest):
        if not _differ(theirs, ours):
            yield key, ours  # type: ignore[misc]  # an outer join has one side at least
            continue
        after = _resolve(Conflict(key, lookup(key), theirs, ours), decide)
        if after is not None:
            yield key, after


def take_side(strategy: Strategy) -> Decide:
    """Returns the decision by which one side wins every conflict."""
    if strategy is Strategy.SOURCE_WINS:
        return lambda conflict: conflict.source
    return lambda conflict: conflict.dest


def _resolve(sides: Conflict, decide: Decide) -> bytes | None:
    outcome = classify(_id(sides.base), _id(sides.source), _id(sides.dest))
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


def _outer_join(
    left: Iterable[Record], right: Iterable[Record]
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Yields every key of two streams once, with its value on either side."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None and other is not None:
        if one[0] == other[0]:
            yield one[0], one[1], other[1]
            one, other = next(lefts, None), next(rights, None)
        elif one[0] < other[0]:
            yield one[0], one[1], None
            one = next(lefts, None)
        else:
            yield other[0], None, other[1]
            other = next(rights, None)
    if one is not None:
        yield one[0], one[1], None
        for key, stored in lefts:
            yield key, stored, None
    if other is not None:
        yield other[0], None, other[1]
        for key, stored in rights:
            yield key, None, stored


def _lookup(records: Iterable[Record]) -> Callable[[bytes], bytes | None]:
    """Returns a function that finds ascending keys in a stream."""
    stream = iter(records)
    held = next(stream, None)

    def find(key: bytes) -> bytes | None:
        nonlocal held
        while held is not None and held[0] < key:
            held = next(stream, None)
        return held[1] if held is not None and held[0] == key else None

    return find


def _labelled(age: int, layer: Iterable[Record]) -> Iterator[tuple[bytes, int, bytes]]:
    for key, stored in layer:
        yield key, age, stored
