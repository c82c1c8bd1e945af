"""How many reads are under way, and when they end."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from threading import Barrier, Lock

import pytest

from sparklake.stores.objects.prefetch import BYTES_AHEAD, READS_AHEAD, _has_room, overlapped

KEYS = [f"{number}" for number in range(100)]


class Reads:
    """Notes what was asked for."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._lock = Lock()

    def get(self, key: str) -> bytes:
        with self._lock:
            self.begun.append(key)
        return b"body"


def test_reads_overlap() -> None:
    # None of them returns before all of them have begun.
    together = Barrier(READS_AHEAD)

    def get(key: str) -> bytes:
        together.wait(timeout=60)
        return key.encode()

    keys = KEYS[:READS_AHEAD] * 3
    assert list(overlapped(get, keys)) == [key.encode() for key in keys]


def test_no_more_are_read_than_may_wait() -> None:
    reads = Reads()
    found = overlapped(reads.get, KEYS)
    next(found)
    found.close()  # waits for those under way
    assert 1 <= len(reads.begun) <= READS_AHEAD
    assert set(reads.begun) <= set(KEYS[:READS_AHEAD])


def test_nothing_is_read_before_something_is_asked_for() -> None:
    reads = Reads()
    overlapped(reads.get, KEYS).close()
    assert reads.begun == []


def test_large_objects_are_not_piled_up() -> None:
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


def test_after_an_error_nothing_more_is_begun() -> None:
    begun = []

    def get(key: str) -> bytes:
        begun.append(key)
        if key == "3":
            raise LookupError(key)
        return key.encode()

    found = overlapped(get, KEYS)
    assert [next(found) for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(LookupError, match="3"):
        next(found)
    assert list(found) == []
    assert len(begun) <= READS_AHEAD + 3
