"""Threads that an interrupt leaves behind, and those that an error waits for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from threading import Event

import pytest

from sparklake.errors import InterruptError
from sparklake.interrupts import Threads, check_interrupted, within_grace


@pytest.fixture
def gate() -> Iterator[Event]:
    """Is what threads wait for that hang; it opens when the test is done."""
    made = Event()
    yield made
    made.set()


def test_they_work_side_by_side_and_answer_in_order() -> None:
    together = threading.Barrier(4)

    def work(number: int) -> int:
        together.wait(60)
        return number

    with Threads(4) as threads:
        assert list(threads.map(work, range(8))) == list(range(8))


def test_there_are_no_more_than_asked_for_and_none_too_many() -> None:
    with Threads(3, "some") as threads:
        names = set(threads.map(lambda _: threading.current_thread().name, range(50)))
    assert names <= {"some-0", "some-1", "some-2"}
    with Threads(3, "some") as threads:
        for _ in range(5):
            done = threads.submit(lambda: threading.current_thread().name)
            assert done.result() in names | {"some-0", "some-1", "some-2"}


def test_an_error_waits_for_what_has_begun_and_drops_the_rest(gate: Event) -> None:
    begun, done = Event(), list[bool]()

    def work() -> None:
        begun.set()
        gate.wait()
        done.append(True)

    futures: list[Future[None]] = []

    def fail() -> None:
        with Threads(1) as threads:
            futures.extend((threads.submit(work), threads.submit(done.append, False)))
            futures[1].add_done_callback(lambda _: gate.set())
            begun.wait()
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert futures[0].done()
    assert futures[1].cancelled()
    assert done == [True]


def test_errors_come_with_their_results() -> None:
    with Threads(1) as threads, pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_what_hangs(gate: Event, interrupt: type[BaseException]) -> None:
    begun, left = Event(), Event()

    def hang() -> None:
        begun.set()
        gate.wait()
        try:
            check_interrupted()
        except InterruptError:
            left.set()

    futures: list[Future[None]] = []

    def end() -> None:
        with Threads(1) as threads:
            futures.extend((threads.submit(hang), threads.submit(begun.clear)))
            begun.wait()
            raise interrupt

    with pytest.raises(interrupt):
        end()
    assert not futures[0].done()
    assert futures[1].cancelled()
    gate.set()
    assert left.wait(60), "it ends where it would ask for more"
    check_interrupted()


def test_an_interrupt_while_it_waits_for_its_threads(gate: Event) -> None:
    main = threading.main_thread().ident or 0
    threads = Threads(1)

    def hang() -> None:
        # No more work is taken once this test's thread has come to the end of the `with`.
        with suppress(RuntimeError):
            while True:
                threads.submit(int)
        signal.pthread_kill(main, signal.SIGINT)
        gate.wait()

    def work() -> None:
        with threads:
            threads.submit(hang)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_what_is_tidied_up_after_an_interrupt_has_little_time(gate: Event) -> None:
    within_grace(gate.wait)
    done = Event()
    within_grace(done.set)
    assert done.wait(60)


def test_none_are_taken_after_the_end() -> None:
    with Threads(1) as threads:
        pass
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)
