"""Counts of cache hits and misses."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from threading import Lock
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Counts of table reads: hits in the cache, misses in the store. Sizes are in bytes."""

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    miss_bytes: int = 0

    def __add__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        return (
            f"{self.hits} hits ({self.hit_bytes} bytes), "
            f"{self.misses} misses ({self.miss_bytes} bytes)"
        )

    @property
    def reads(self) -> int:
        return self.hits + self.misses


class Tally:
    """The counts of this process and its workers. Repeated reports are harmless."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset all counts and take a new name, as a forked child must."""
        self._lock = Lock()
        self._process = uuid4().hex
        self._counts = {self._process: CacheCounts()}

    def add(self, counts: CacheCounts) -> None:
        with self._lock:
            self._counts[self._process] += counts

    def report(self) -> tuple[str, CacheCounts]:
        with self._lock:
            return self._process, self._counts[self._process]

    def note(self, process: str, counts: CacheCounts) -> None:
        """Record a process's report. The report with the most reads is the latest."""
        with self._lock:
            previous = self._counts.get(process, CacheCounts())
            self._counts[process] = max(previous, counts, key=lambda each: each.reads)

    def total(self) -> CacheCounts:
        with self._lock:
            return reduce(add, self._counts.values())


TALLY = Tally()
"""The tally of this process."""

os.register_at_fork(after_in_child=TALLY.begin)
