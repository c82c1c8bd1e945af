"""The measurement of operations: wall time, CPU of all processes, and memory of each.

CPU time is that of the process tree, including workers that outlive an operation. Memory is that of
the process alone: mapped files belong to the page cache and are not included.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import psutil
import psycopg

import sparklake
from sparklake.stores.embedded import embedded_dsn

SPAWN = get_context("spawn")

_SAMPLE_SECONDS = 0.02
_SEARCH_SECONDS = 0.25
_MEGABYTE = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of an operation. `cpu` is in seconds, of this process and all below it.

    `driver_mb` and `worker_mb` are peaks, the latter of the largest worker. `calls` is the count
    of the meter's counter.
    """

    wall: float
    cpu: float
    postgres_cpu: float
    driver_mb: float
    worker_mb: float
    calls: Counter[str]


class Meter:
    """A meter of operations of this process. `postgres` is the first process of a server, if any.

    `strangers` are other children of the benchmark. `counter` may be set at any time, to count the
    calls of an object store.
    """

    counter: Callable[[], Counter[str]] = Counter

    def __init__(
        self, watch: Connection, strangers: Collection[int], postgres: int | None = None
    ) -> None:
        self._postgres = postgres and psutil.Process(postgres)
        self._watch = watch
        self._strangers = strangers

    def measure(self, operation: Callable[[], T]) -> tuple[T, Usage]:
        """Run an operation; return its result and its cost."""
        self._ask()
        calls = self.counter()
        workers, postgres = self._workers_cpu(), self._postgres_cpu()
        cpu, wall = time.process_time(), time.perf_counter()
        result = operation()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        cpu += self._workers_cpu() - workers
        postgres = self._postgres_cpu() - postgres
        calls = self.counter() - calls
        driver, worker = (peak / _MEGABYTE for peak in self._ask())
        return result, Usage(wall, cpu, postgres, driver, worker, calls)

    def _workers_cpu(self) -> float:
        own = os.times()
        below = sum(map(_cpu, workers_of(os.getpid(), self._strangers)))
        return own.children_user + own.children_system + below

    def _postgres_cpu(self) -> float:
        if not self._postgres:
            return 0.0
        return sum(map(_cpu, [self._postgres, *self._postgres.children()]))

    def _ask(self) -> tuple[int, int]:
        """Return the peaks since the last call."""
        self._watch.send(None)
        peaks: tuple[int, int] = self._watch.recv()
        return peaks


@contextmanager
def open_lake(home: Path, engine: str) -> Iterator[tuple[sparklake.Lake, Meter]]:
    """Open a lake with an embedded Postgres, and a meter for it.

    Existing child processes are not counted.
    """
    server = embedded_dsn(home)
    try:
        with (
            sparklake.connect(home, server.dsn, engine=engine) as lake,
            open_meter(_postmaster(server.dsn)) as meter,
        ):
            yield lake, meter
    finally:
        server.release()


def in_own_process(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in a fresh process, with its own memory and session."""
    with ProcessPoolExecutor(1, SPAWN) as pool:
        return pool.submit(_telling, function, *arguments).result()


def _telling(function: Callable[..., T], *arguments: object) -> T:
    try:
        return function(*arguments)
    except Exception as error:
        # An error of Spark's does not come through a pipe: what it says does.
        raise RuntimeError(str(error)) from error


def workers_of(pid: int, strangers: Collection[int]) -> Iterator[psutil.Process]:
    """Yield the processes below a process, except strangers."""
    for each in psutil.Process(pid).children():
        if each.pid not in strangers:
            yield each
            with suppress(psutil.NoSuchProcess):
                yield from each.children(recursive=True)


def _cpu(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0


def _postmaster(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        # Its parent is the server's first process, but only while the connection is there.
        return int(psutil.Process(connection.info.backend_pid).ppid())


# --- memory ---------------------------------------------------------------------------------------


@contextmanager
def open_meter(postgres: int | None = None) -> Iterator[Meter]:
    """Start to measure this process and its future children.

    Another process watches the memory, so that this one is not slowed down.
    """
    here, there = SPAWN.Pipe()
    driver = psutil.Process()
    watcher = SPAWN.Process(target=_watch, args=(driver.pid, there), daemon=True)
    watcher.start()
    there.close()
    try:
        strangers = frozenset(each.pid for each in driver.children())
        here.send(strangers)
        yield Meter(here, strangers, postgres)
    finally:
        here.close()
        watcher.join()


def _watch(driver: int, asked: Connection) -> None:
    """Answer each message with the peaks of the driver and of any worker since the last one."""
    strangers: frozenset[int] = asked.recv()
    workers: list[int] = []
    searched = 0.0
    own = largest = 0
    with suppress(EOFError):
        while True:
            answer = asked.poll(_SAMPLE_SECONDS)
            if answer or time.monotonic() - searched > _SEARCH_SECONDS:
                workers = [each.pid for each in workers_of(driver, strangers)]
                searched = time.monotonic()
            own = max(own, _memory(driver))
            largest = max(largest, 0, *map(_memory, workers))
            if answer:
                asked.recv()
                asked.send((own, largest))
                own = largest = 0


def _memory(pid: int) -> int:
    """Return the bytes that only this process uses; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    lines = (line.split() for line in text.splitlines())
    return 1024 * sum(int(line[1]) for line in lines if line[0] in ("RssAnon:", "RssShmem:"))
