"""Overlapping reads, for stores with high latency."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from sparklake.graveler.ports import Content
from sparklake.interrupts import Threads

READS_AHEAD = 16
"""The maximum number of objects that are being read or waiting to be consumed."""

BYTES_AHEAD = 64 << 20
"""The number of unconsumed bytes at which no further read starts."""


def overlapped(get: Callable[[str], Content], keys: Sequence[str]) -> Iterator[Content]:
    """Yield the result of `get` for each key, in order; raise errors at their key's position."""
    if len(keys) <= 1:
        yield from map(get, keys)
        return
    waiting, ahead = deque[Future[Content]](), iter(keys)
    with Threads(min(READS_AHEAD, len(keys)), "sparklake-read") as threads:
        while True:
            while _has_room(waiting) and (key := next(ahead, None)) is not None:
                waiting.append(threads.submit(get, key))
            if not waiting:
                return
            yield waiting.popleft().result()


def _has_room(waiting: deque[Future[Content]]) -> bool:
    done = (each for each in waiting if each.done() and each.exception() is None)
    return len(waiting) < READS_AHEAD and sum(len(each.result()) for each in done) < BYTES_AHEAD
