"""Reads that overlap, where most of the time of each is spent waiting."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

from sparklake.interrupts import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

READS_AHEAD = 16
"""How many objects are read, or wait to be taken."""

BYTES_AHEAD = 64 << 20
"""While so much waits to be taken, no further read is begun."""


def overlapped(get: Callable[[str], bytes], keys: Sequence[str]) -> Iterator[bytes]:
    """Yield what `get` returns for each key, in order, reading ahead of whoever takes it.

    An error is raised in its turn. After it, or when the iterator is closed, only reads that are
    under way are finished.
    """
    if len(keys) <= 1:
        yield from map(get, keys)
        return
    waiting, ahead = deque[Future[bytes]](), iter(keys)
    with Threads(min(READS_AHEAD, len(keys)), "sparklake-read") as threads:
        while True:
            while _has_room(waiting) and (key := next(ahead, None)) is not None:
                waiting.append(threads.submit(get, key))
            if not waiting:
                return
            yield waiting.popleft().result()


def _has_room(waiting: deque[Future[bytes]]) -> bool:
    done = (each for each in waiting if each.done() and each.exception() is None)
    return len(waiting) < READS_AHEAD and sum(len(each.result()) for each in done) < BYTES_AHEAD
