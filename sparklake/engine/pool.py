"""An engine on all cores of this machine, in worker processes."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from sparklake._scratch import scratch_folder
from sparklake.config import disk_root
from sparklake.engine.base import TASKS_A_WORKER, Body, Source, Work, shared_task_records
from sparklake.engine.ipc import from_file, pack_batches, to_file, unpack
from sparklake.engine.sort import (
    SORT_BYTES,
    Share,
    SortedFile,
    key_shares,
    records_in_order,
    sliced,
    sort_to_files,
    source_batches,
)
from sparklake.engine.worker import Worker
from sparklake.errors import LostWorkerError
from sparklake.interrupts import GRACE_SECONDS, Threads

if TYPE_CHECKING:
    import pyarrow as pa

_AHEAD_A_WORKER = 2
_CLOSE_SECONDS = 5.0

_SLICE_BYTES = 16 * 1024 * 1024
_MIN_SHARE_BYTES = 8 * 1024 * 1024


class PoolRunner:
    """A runner on worker processes. They start with the first task and stay until `close`."""

    name = "pool"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._crew: _WorkerSet | None = None
        self._lock = Lock()

    @property
    def is_warm(self) -> bool:
        """Whether the workers have been started."""
        return self._crew is not None

    def close(self, patience: float = _CLOSE_SECONDS) -> None:
        """Stop the workers, even during a task. The next task starts new workers.

        Workers that need longer than `patience` seconds to clean up are killed.
        """
        with self._lock:
            crew, self._crew = self._crew, None
        if crew is not None:
            crew.end(patience)

    def task_records(self, records: int) -> int:
        """Return the number of records per task. Small tasks share out evenly."""
        return shared_task_records(records, self.workers)

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, one task per row."""
        with self._map(_run, _calls(body, work), ahead=work.num_rows) as results:
            for packed in results:
                yield from unpack(packed)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, with some tasks ahead of the reader.

        The first task runs in this process: a reader of only a few rows must not wait for
        workers to start.
        """
        if not work.num_rows:
            return
        here = iter(body(work.slice(0, 1).to_batches()))
        yield from islice(here, 1)
        # Results come back in files, in memory where there is plenty: a pipe would copy
        # them twice.
        with scratch_folder() as scratch:
            calls = ((scratch, *call) for call in _calls(body, work.slice(1)))
            with self._map(_run_to_file, calls) as results:
                yield from here
                for path in results:
                    yield from from_file(path) if path else ()

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Run `body` over the sorted output of `encode`, by intervals of keys."""
        with scratch_folder(disk_root()) as scratch:
            size = 0 if isinstance(source, Work) else _SLICE_BYTES
            slices = sliced(source_batches(source), size)
            sorting = ((encode, scratch, pack_batches(each)) for each in slices)
            with self._map(_sort, sorting) as results:
                files = list(chain.from_iterable(results))
            size = sum(each.size for each in files) // (TASKS_A_WORKER * self.workers)
            size = min(max(size, _MIN_SHARE_BYTES), SORT_BYTES)
            writing = [(body, share) for share in key_shares(files, size)]
            with self._map(_run_share, writing, ahead=len(writing)) as results:
                return [batch for packed in results for batch in unpack(packed)]

    def _map(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], ahead: int = 0
    ) -> _Results:
        ahead = max(ahead, _AHEAD_A_WORKER * self.workers)
        return _Results(self, partial(self._submit, function), iter(calls), ahead)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with self._lock:
            if self._crew is None:
                self._crew = _WorkerSet(self.workers)
            return self._crew.submit(function, *arguments)


class _WorkerSet:
    """The workers. A thread drives each busy worker."""

    def __init__(self, count: int) -> None:
        self._threads = Threads(count, "sparklake-worker")
        self._workers: set[Worker] = set()
        self._idle = SimpleQueue[Worker]()
        self._has_ended = False
        for _ in range(count):
            self._idle.put(self._hired())

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._threads.submit(self._call, function, *arguments)

    def end(self, patience: float) -> None:
        self._has_ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        workers = tuple(self._workers)
        end = time.monotonic() + patience
        for each in workers:
            each.stop()
        for each in workers:
            each.join(end)
        self._threads.shutdown()
        for each in workers:
            each.close()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        worker = self._idle.get()
        try:
            # A worker that was killed while idle has lost no work.
            if not worker.is_alive():
                worker = self._replacement(worker)
            return worker.call(function, *arguments)
        except LostWorkerError:
            if not self._has_ended:
                worker = self._replacement(worker)
            raise
        finally:
            self._idle.put(worker)

    def _hired(self) -> Worker:
        worker = Worker()
        self._workers.add(worker)
        return worker

    def _replacement(self, lost: Worker) -> Worker:
        self._workers.discard(lost)
        lost.join()
        lost.close()
        return self._hired()


class _Results:
    """The results of calls that run ahead. Leaving the context cancels calls not yet begun."""

    def __init__(
        self,
        runner: PoolRunner,
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
            self._leave(type(error))
            raise
        return self._in_order()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leave(kind)

    def _fill(self) -> None:
        for call in islice(self._calls, self._ahead - len(self._waiting)):
            self._waiting.append(self._submit(*call))

    def _in_order(self) -> Iterator[Any]:
        while self._waiting:
            result = self._waiting[0].result()
            self._waiting.popleft()
            self._fill()
            yield result

    def _leave(self, kind: type[BaseException] | None) -> None:
        running = [each for each in self._waiting if not each.cancel()]
        if kind is KeyboardInterrupt:
            self._runner.close(GRACE_SECONDS)
        elif kind is not GeneratorExit:
            # After an error is reported, no task may still write.
            wait(running)


def _calls(body: Body, work: pa.Table) -> Iterator[tuple[Body, bytes]]:
    for at in range(work.num_rows):
        yield body, pack_batches(work.slice(at, 1).to_batches())


def _run(body: Body, packed: bytes) -> bytes:
    return pack_batches(list(body(unpack(packed))))


def _run_to_file(scratch: Path, body: Body, packed: bytes) -> Path | None:
    path = scratch / uuid.uuid4().hex
    return path if to_file(path, body(unpack(packed))) else None


def _sort(encode: Body, scratch: Path, packed: bytes) -> list[SortedFile]:
    return sort_to_files(encode, scratch, unpack(packed))


def _run_share(body: Body, share: Share) -> bytes:
    return pack_batches(list(body(records_in_order(share))))
