"""Engines in this process: sequential, or with a thread per core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from threading import Lock
from typing import Any

import pyarrow as pa

from sparklake._scratch import scratch_folder
from sparklake.engine import sort
from sparklake.engine.base import (
    MAX_TASK_RECORDS,
    TASKS_A_WORKER,
    Body,
    Source,
    Work,
    shared_task_records,
)
from sparklake.graveler.chunks import sliced
from sparklake.interrupts import Threads

_AHEAD_A_WORKER = 2
_SLICE_BYTES = 16 * 1024 * 1024
_MIN_SHARE_BYTES = 8 * 1024 * 1024


class LocalRunner:
    """A sequential, lazy runner: tasks run as results are read."""

    name = "local"

    def task_records(self, records: int) -> int:
        return MAX_TASK_RECORDS

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        return self.stream(body, work)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        if work.num_rows:
            yield from body(work.to_batches())

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        if slices := sort.slices_in_order(source, MAX_TASK_RECORDS):
            return [batch for each in slices for batch in _encode_and_run(encode, body, each)]
        with scratch_folder() as scratch:
            files = sort.sort_to_files(encode, scratch, sort.source_batches(source))
            in_order = map(sort.records_in_order, sort.key_shares(files, sort.SORT_BYTES))
            return list(body(chain.from_iterable(in_order)))


class ThreadRunner:
    """A runner on threads, started with the first task and stopped by `close`."""

    name = "threads"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._threads: Threads | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Stop the threads after their tasks. The next task starts new threads."""
        if threads := self._release():
            threads.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """Stop waiting for the threads after an interrupt. The next task starts new threads."""
        if threads := self._release():
            threads.leave()

    def task_records(self, records: int) -> int:
        return shared_task_records(records, self.workers)

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        with self._map(_run, _calls(body, work), ahead=work.num_rows) as results:
            yield from chain.from_iterable(results)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body ahead of the reader. The first rows do not wait for a whole task."""
        if not work.num_rows:
            return
        here = iter(body(work.slice(0, 1).to_batches()))
        yield from islice(here, 1)
        with self._map(_run, _calls(body, work.slice(1))) as results:
            yield from here
            yield from chain.from_iterable(results)

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        rows = self.task_records(source.num_rows) if isinstance(source, pa.Table) else 0
        if tables := sort.slices_in_order(source, rows):
            calls = ((encode, body, each) for each in tables)
            with self._map(_encode_and_run, calls, ahead=len(tables)) as results:
                return list(chain.from_iterable(results))
        with scratch_folder() as scratch:
            size = 0 if isinstance(source, Work) else _SLICE_BYTES
            slices = sliced(sort.source_batches(source), size, attrgetter("nbytes"))
            sorting = ((encode, scratch, each) for each in slices)
            with self._map(sort.sort_to_files, sorting) as results:
                files = list(chain.from_iterable(results))
            size = sum(each.size for each in files) // (TASKS_A_WORKER * self.workers)
            size = min(max(size, _MIN_SHARE_BYTES), sort.SORT_BYTES)
            shares = sort.key_shares(files, size)
            writing = ((body, sort.records_in_order(share)) for share in shares)
            with self._map(_run, writing, ahead=len(shares)) as results:
                return list(chain.from_iterable(results))

    def _release(self) -> Threads | None:
        with self._lock:
            threads, self._threads = self._threads, None
        return threads

    def _map(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], ahead: int = 0
    ) -> _Results:
        ahead = max(ahead, _AHEAD_A_WORKER * self.workers)
        return _Results(self, partial(self._submit, function), iter(calls), ahead)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with self._lock:
            if self._threads is None:
                self._threads = Threads(self.workers, "sparklake-task")
            return self._threads.submit(function, *arguments)


class _Results:
    """Results of calls ahead of the reader. Leaving the context cancels waiting calls."""

    def __init__(
        self,
        runner: ThreadRunner,
        submit: Callable[..., Future[Any]],
        calls: Iterator[tuple[Any, ...]],
        ahead: int,
    ) -> None:
        self._runner = runner
        self._submit = submit
        self._calls = calls
        self._ahead = ahead
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> Iterator[Any]:
        try:
            self._fill()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self._in_order()

    def _fill(self) -> None:
        for call in islice(self._calls, self._ahead - len(self._waiting)):
            self._waiting.append(self._submit(*call))

    def _in_order(self) -> Iterator[Any]:
        while self._waiting:
            result = self._waiting[0].result()
            self._waiting.popleft()
            self._fill()
            yield result

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        running = [each for each in self._waiting if not each.cancel()]
        if kind is KeyboardInterrupt:
            self._runner.abandon()
        elif kind is not GeneratorExit:
            # After an error is reported, no task may still write.
            wait(running)


def _calls(body: Body, work: pa.Table) -> Iterator[tuple[Body, Iterable[pa.RecordBatch]]]:
    for at in range(work.num_rows):
        yield body, work.slice(at, 1).to_batches()


def _encode_and_run(encode: Body, body: Body, rows: pa.Table) -> list[pa.RecordBatch]:
    """Run both bodies in memory, because ordered rows need no sort files."""
    return list(body(encode(sort.source_batches(rows))))


def _run(body: Body, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(body(batches))
