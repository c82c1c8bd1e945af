"""Change summaries of commits, to skip commits in path logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
import numpy as np
from numpy.typing import NDArray

from sparklake.graveler.blocks.block import Block
from sparklake.graveler.buffers import Mask
from sparklake.graveler.keys import Interval, common, prefix_interval, successor
from sparklake.graveler.planning.path_filter import covering
from sparklake.graveler.planning.segments import changed_intervals, joined_evenly
from sparklake.graveler.ranges import Ranges

MOST_KEYS = 1000  # The most changed keys that a summary lists by name.

MOST_INTERVALS = 32
_MAX_WINDOWS = 4096
_VERSION = 1
_HASH_BYTES = 8

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """The subject of a history search: an interval of keys and their common name."""

    interval: Interval
    name: bytes

    @staticmethod
    def key(key: bytes) -> SearchTarget:
        return SearchTarget(Interval(key, successor(key)), key)

    @staticmethod
    def prefix(prefix: bytes) -> SearchTarget:
        """Search for a key prefix by the name of its last complete folder."""
        return SearchTarget(prefix_interval(prefix), prefix[: prefix.rfind(b"/") + 1])


@dataclass(frozen=True, slots=True, eq=False)
class ChangeSummary:
    """A superset of a commit's changes: names and intervals.

    `names` are sorted hashes of keys and of all folders around them. The root's name is empty.
    `intervals` are key intervals with unknown changes.
    """

    names: Hashes
    intervals: tuple[Interval, ...] = ()

    def may_hold(self, interval: Interval, name_hash: np.uint64) -> bool:
        """Return whether a name or an interval may have changed."""
        at = self.names.searchsorted(name_hash)
        if at < len(self.names) and self.names[at] == name_hash:
            return True
        return not all(common(each, interval).is_empty for each in self.intervals)


@dataclass(slots=True)
class ChangedKeys:
    """The keys changed by a stream of edits; None for more than MOST_KEYS."""

    keys: set[bytes] | None = field(default_factory=set)

    def observe(self, block: Block, dropped: Mask, added: Block) -> None:
        if self.keys is None:
            return
        removed = np.flatnonzero(dropped)
        if len(self.keys) + max(len(removed), len(added)) > MOST_KEYS:
            self.keys = None
            return
        if len(removed):
            self.keys.update(block.take(removed).key_array().to_pylist())
        if len(added):
            self.keys.update(added.key_array().to_pylist())

    def join(self, keys: Iterable[bytes] | None) -> None:
        """Add the keys of another stream; None for too many."""
        if self.keys is not None:
            joined = None if keys is None else self.keys.union(keys)
            self.keys = joined if joined is not None and len(joined) <= MOST_KEYS else None


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """A superset of two trees' differing keys within ordered intervals."""

    keys: frozenset[bytes]
    within: Sequence[Interval]


def summary_between(before: Ranges, after: Ranges, changed: KnownKeys | None) -> ChangeSummary:
    """Summarize the differences between two trees.

    Differences in the intervals of `changed` are listed by name. Other differences are found by
    range ids and summarized as intervals.
    """
    if changed is None:
        return ChangeSummary(
            name_hashes(()), tuple(changed_intervals(before, after, MOST_INTERVALS))
        )
    covered = covering(changed.within)
    windows = changed_intervals(before, after, _MAX_WINDOWS)
    others = [each for each in windows if not covered.holds(each)]
    return ChangeSummary(names_hashed(changed.keys), tuple(joined_evenly(others, MOST_INTERVALS)))


def names_hashed(keys: Iterable[bytes]) -> Hashes:
    """Return the sorted hashes of keys and all folders around them, with the root."""
    names = {b""} if keys else set()
    for key in keys:
        names.add(key)
        at = key.find(b"/")
        while at >= 0:
            names.add(key[: at + 1])
            at = key.find(b"/", at + 1)
    return np.unique(name_hashes(names))


def name_hashes(names: Iterable[bytes]) -> Hashes:
    joined = b"".join(sha256(name).digest()[:_HASH_BYTES] for name in names)
    return np.frombuffer(joined, "<u8")


def name_hash(name: bytes) -> np.uint64:
    first: np.uint64 = name_hashes([name])[0]
    return first


class _Stored(msgspec.Struct, array_like=True):
    version: int
    names: bytes
    intervals: list[tuple[bytes, bytes | None]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def encode_summary(summary: ChangeSummary) -> bytes:
    intervals = [(each.start, each.stop) for each in summary.intervals]
    return _encode(_Stored(_VERSION, summary.names.astype("<u8").tobytes(), intervals))


def decode_summary(stored: bytes) -> ChangeSummary | None:
    """Parse a summary, or return None for an unknown format."""
    try:
        fields = _decode(stored)
        names = np.frombuffer(fields.names, "<u8")
    except (msgspec.MsgspecError, ValueError):
        return None
    if fields.version != _VERSION:
        return None
    return ChangeSummary(names, tuple(Interval(start, stop) for start, stop in fields.intervals))
