"""How many reads are under way, and when they end."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from threading import Barrier, Lock

import pytest

from sparklake.stores.objects.prefetch import BYTES_AHEAD, READS_AHEAD, _has_room, overlapped

KEYS = [f"{number}" for number in range(100)]


class Reads:
    """Records the requested keys."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._lock = Lock()

    def get(self, key: str) -> bytes:
        with self._lock:
            self.begun.append(key)
        return b"body"


def test_reads_run_concurrently() -> None:
    # None of them returns before all have started.
    together = Barrier(READS_AHEAD)

    def get(key: str) -> bytes:
        together.wait(timeout=60)
        return key.encode()

    keys = KEYS[:READS_AHEAD] * 3
    assert list(overlapped(get, keys)) == [key.encode() for key in keys]


def test_only_a_limited_number_is_read_ahead() -> None:
    reads = Reads()
    contents = overlapped(reads.get, KEYS)
    next(contents)
    contents.close()  # waits for those under way
    assert 1 <= len(reads.begun) <= READS_AHEAD
    assert set(reads.begun) <= set(KEYS[:READS_AHEAD])


def test_nothing_is_read_before_the_first_request() -> None:
    reads = Reads()
    overlapped(reads.get, KEYS).close()
    assert reads.begun == []


def test_large_objects_limit_the_read_ahead() -> None:
    def done(size: int) -> Future[bytes]:
        future = Future[bytes]()
        future.set_result(bytes(size))
        return future

    under_way, failed = Future[bytes](), Future[bytes]()
    failed.set_exception(LookupError())
    half = done(BYTES_AHEAD // 2)
    assert _has_room(deque())
    assert _has_room(deque([half, under_way, failed]))
    assert not _has_room(deque([half, under_way, half]))
    assert not _has_room(deque([under_way] * READS_AHEAD))


def test_no_read_starts_after_an_error() -> None:
    started = []

    def get(key: str) -> bytes:
        started.append(key)
        if key == "3":
            raise LookupError(key)
        return key.encode()

    contents = overlapped(get, KEYS)
    assert [next(contents) for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(LookupError, match="3"):
        next(contents)
    assert list(contents) == []
    assert len(started) <= READS_AHEAD + 3
