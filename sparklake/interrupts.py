"""Ctrl-C: abandonable threads, and prompt termination."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from sparklake.errors import InterruptError

GRACE_SECONDS = 0.3
"""The grace period of busy threads after an interrupt: enough for a healthy store."""

END_SECONDS = 1.2
"""The seconds from an interrupt to the forced exit of a program."""

_SAY_SECONDS = 0.3
_NOTICE_SECONDS = 0.5

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Task = tuple["Future[Any]", Callable[[], Any]]

_here = threading.local()


class Threads(Executor):
    """A pool of threads, abandoned by an interrupt.

    Leaving its `with` waits for running calls, so that nothing is written after a failure is
    reported; an error drops queued calls. An interrupt waits at most GRACE_SECONDS, then abandons
    the threads, which are daemons and stop at their next `check_interrupted`.
    """

    def __init__(self, count: int | None = None, name: str = "sparklake") -> None:
        self._count = max(1, count or os.cpu_count() or 1)
        self._name = name
        self._tasks = SimpleQueue[_Task | None]()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_shut = False
        self._is_left = threading.Event()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("the threads have been shut down: submit work to new ones")
            self._tasks.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                self._drop()
            for _ in self._threads:
                self._tasks.put(None)
        try:
            for each in self._threads if wait else ():
                while each.is_alive():
                    # Without a timeout, a signal that arrives just before the wait is not noticed.
                    each.join(_NOTICE_SECONDS)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Drop queued calls, wait GRACE_SECONDS for the running ones, then abandon them."""
        self._is_left.set()
        self.shutdown(wait=False, cancel_futures=True)
        self.wait_for_grace()

    def wait_for_grace(self) -> None:
        end = time.monotonic() + GRACE_SECONDS
        for each in self._threads:
            each.join(max(0.0, end - time.monotonic()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, Exception | GeneratorExit):
            self.shutdown(cancel_futures=kind is not None)
        else:
            self.leave()

    def _drop(self) -> None:
        try:
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task[0].cancel()
        except Empty:
            return

    def _work(self) -> None:
        _here.is_left = self._is_left
        while (task := self._tasks.get()) is not None:
            _run(*task)
            del task  # otherwise its result would live until the next task
            self._idle.release()


def check_interrupted() -> None:
    """Raise InterruptError in an abandoned thread."""
    is_left = getattr(_here, "is_left", None)
    if is_left is not None and is_left.is_set():
        raise InterruptError


def within_grace(call: Callable[[], object]) -> None:
    """Run a call for at most GRACE_SECONDS, then abandon it; drop its errors."""
    threads = Threads(1)
    threads.submit(call)
    threads.shutdown(wait=False)
    threads.wait_for_grace()


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  (reading the result raises it)
        future.set_exception(error)
    else:
        future.set_result(result)


@contextmanager
def ending_soon(say: Callable[[], object]) -> Iterator[None]:
    """Terminate this program shortly after Ctrl-C, even if it is waiting or cleaning up.

    After END_SECONDS, `say` informs the user, and the process exits with the exit code of
    InterruptError. Use it only for programs that finish with the block. A no-op outside of the main
    thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # The system writes to it when a signal arrives, even while no Python code can run.
    hears, wakes = socket.socketpair()
    wakes.setblocking(False)
    is_done = threading.Event()
    before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(hears, is_done, say), daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_done.set()
        signal.set_wakeup_fd(before)
        wakes.close()


def _watch(hears: socket.socket, is_done: threading.Event, say: Callable[[], object]) -> None:
    with hears:
        while signals := hears.recv(64):
            if signal.SIGINT in signals:
                _end(is_done, say)


def _end(is_done: threading.Event, say: Callable[[], object]) -> None:
    # Even after the program's end, because the process may still wait for threads.
    time.sleep(END_SECONDS)
    if not is_done.is_set():
        # In a thread, because the output may block.
        saying = threading.Thread(target=say, daemon=True)
        saying.start()
        saying.join(_SAY_SECONDS)
    os._exit(InterruptError.exit_code)


EARLY_HANDLERS: list[object] = []
"""The handler of SIGINT that a starting command set, until it handles interrupts itself."""


def hand_over_interrupts() -> None:
    """Restore Python's handler, so interrupts raise KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) in EARLY_HANDLERS:
        signal.signal(signal.SIGINT, signal.default_int_handler)
