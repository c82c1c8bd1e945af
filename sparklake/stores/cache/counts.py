"""What caches did: reads that they served, and reads that they did not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import reduce
from operator import add
from threading import Lock
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Counts reads of tables: hits came from the cache, misses from the store; sizes in bytes."""

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    miss_bytes: int = 0

    def __add__(self, other: CacheCounts) -> CacheCounts:
        return CacheCounts(
            self.hits + other.hits,
            self.misses + other.misses,
            self.hit_bytes + other.hit_bytes,
            self.miss_bytes + other.miss_bytes,
        )

    def __str__(self) -> str:
        return (
            f"{self.hits} hits ({self.hit_bytes} bytes), "
            f"{self.misses} misses ({self.miss_bytes} bytes)"
        )

    @property
    def reads(self) -> int:
        """The number of all reads."""
        return self.hits + self.misses


class Tally:
    """Adds up the counts of this process and of those that worked for it; safe for threads.

    A process reports all that it has counted so far, under a name of its own. So a report that
    comes twice, late or not at all falsifies nothing that comes after it.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget everything and take a new name, as a forked child must."""
        self._lock = Lock()
        self._process = uuid4().hex
        self._counts = {self._process: CacheCounts()}

    def add(self, counts: CacheCounts) -> None:
        """Count what this process did."""
        with self._lock:
            self._counts[self._process] += counts

    def report(self) -> tuple[str, CacheCounts]:
        """Return this process's name and all that it has counted."""
        with self._lock:
            return self._process, self._counts[self._process]

    def note(self, process: str, counts: CacheCounts) -> None:
        """Take a process's report; its own, which comes back when a task ran here, adds nothing.

        Of several the one of the most reads is the latest.
        """
        with self._lock:
            known = self._counts.get(process, CacheCounts())
            self._counts[process] = max(known, counts, key=lambda each: each.reads)

    def total(self) -> CacheCounts:
        """Return the counts of all processes together."""
        with self._lock:
            return reduce(add, self._counts.values())


TALLY = Tally()
"""This process's."""

os.register_at_fork(after_in_child=TALLY.begin)
