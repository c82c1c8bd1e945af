"""What a commit may have touched: a few bytes by which the history of a path is not read in vain.

A summary holds hashes of the names that a commit changed, and intervals where it is not known which
names those are. It may hold more than was changed, and never less: it only tells what need not be
looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
import numpy as np
from numpy.typing import NDArray

from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import Mask
from sparklake.graveler.keys import Interval, prefix_interval, successor
from sparklake.graveler.planning.segments import changed_intervals, joined_evenly
from sparklake.graveler.ranges import Ranges

MOST_KEYS = 1000
"""Of how many changed keys a summary has the names."""

MOST_INTERVALS = 32
_MOST_WINDOWS = 4096
_VERSION = 1
_HASH_BYTES = 8

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Sought:
    """What a history is asked for: an interval of keys, and a name that all of them share."""

    interval: Interval
    name: bytes

    @staticmethod
    def key(key: bytes) -> Sought:
        """Return what to seek for one key."""
        return Sought(Interval(key, successor(key)), key)

    @staticmethod
    def prefix(prefix: bytes) -> Sought:
        """Return what to seek for all keys with a prefix: they are in its last whole folder."""
        return Sought(prefix_interval(prefix), prefix[: prefix.rfind(b"/") + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """The names that a commit may have changed, by their sorted hashes, and where it did more.

    Names are keys and all folders around them, of which the root is empty.
    """

    names: Hashes
    intervals: tuple[Interval, ...] = ()

    def may_hold(self, interval: Interval, name_hash: np.uint64) -> bool:
        """Return whether something may have changed under a name, or in its interval."""
        at = self.names.searchsorted(name_hash)
        if at < len(self.names) and self.names[at] == name_hash:
            return True
        return any(_overlap(each, interval) for each in self.intervals)


@dataclass(slots=True)
class ChangedKeys:
    """Collects the keys that a stream of edits changes; None when they are too many."""

    keys: set[bytes] | None = field(default_factory=set)

    def note(self, block: Block, dropped: Mask, added: Block) -> None:
        """Take in that some records of a block give way to others."""
        if self.keys is None:
            return
        gone = np.flatnonzero(dropped)
        if len(self.keys) + max(len(gone), len(added)) > MOST_KEYS:
            self.keys = None
            return
        if len(gone):
            self.keys.update(block.take(gone).key_array().to_pylist())
        if len(added):
            self.keys.update(added.key_array().to_pylist())

    def join(self, keys: Iterable[bytes] | None) -> None:
        """Take in the keys of another stream."""
        if self.keys is not None:
            joined = None if keys is None else self.keys.union(keys)
            self.keys = joined if joined is not None and len(joined) <= MOST_KEYS else None


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Says that between two trees no other key differs in some intervals, which are in order."""

    keys: frozenset[bytes]
    within: Sequence[Interval]


def touched_between(before: Ranges, after: Ranges, known: KnownKeys | None) -> Touched:
    """Return what differs between two trees, as far as ids tell, by name where that is known."""
    if known is None:
        return Touched(hashed(()), tuple(changed_intervals(before, after, MOST_INTERVALS)))
    covered = _Cover(known.within)
    windows = changed_intervals(before, after, _MOST_WINDOWS)
    rest = [each for each in windows if not covered.holds(each)]
    return Touched(names_hashed(known.keys), tuple(joined_evenly(rest, MOST_INTERVALS)))


def names_hashed(keys: Iterable[bytes]) -> Hashes:
    """Return the sorted hashes of keys and of all folders around them, the root included."""
    names = {b""} if keys else set()
    for key in keys:
        names.add(key)
        at = key.find(b"/")
        while at >= 0:
            names.add(key[: at + 1])
            at = key.find(b"/", at + 1)
    return np.unique(hashed(names))


def hashed(names: Iterable[bytes]) -> Hashes:
    """Return the hashes of names, in their order."""
    joined = b"".join(sha256(name).digest()[:_HASH_BYTES] for name in names)
    return np.frombuffer(joined, "<u8")


def name_hash(name: bytes) -> np.uint64:
    """Return the hash of one name."""
    found: np.uint64 = hashed([name])[0]
    return found


class _Stored(msgspec.Struct, array_like=True):
    version: int
    names: bytes
    intervals: list[tuple[bytes, bytes | None]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def encode_touched(touched: Touched) -> bytes:
    """Return the bytes that are kept of a summary."""
    intervals = [(each.start, each.stop) for each in touched.intervals]
    return _encode(_Stored(_VERSION, touched.names.astype("<u8").tobytes(), intervals))


def decode_touched(stored: bytes) -> Touched | None:
    """Return a summary; None for one in a form that is not known here, as if there were none."""
    try:
        found = _decode(stored)
    except msgspec.MsgspecError:
        return None
    if found.version != _VERSION:
        return None
    intervals = tuple(Interval(start, stop) for start, stop in found.intervals)
    return Touched(np.frombuffer(found.names, "<u8"), intervals)


def _overlap(one: Interval, other: Interval) -> bool:
    return (one.stop is None or other.start < one.stop) and (
        other.stop is None or one.start < other.stop
    )


class _Cover:
    """The union of intervals in order, those that meet as one."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._joined: list[Interval] = []
        for each in intervals:
            last = self._joined[-1] if self._joined else None
            if last is not None and (last.stop is None or each.start <= last.stop):
                self._joined[-1] = Interval(last.start, each.stop)
            else:
                self._joined.append(each)
        self._starts = [each.start for each in self._joined]

    def holds(self, interval: Interval) -> bool:
        at = bisect_right(self._starts, interval.start) - 1
        if at < 0:
            return False
        stop = self._joined[at].stop
        return stop is None or (interval.stop is not None and interval.stop <= stop)
