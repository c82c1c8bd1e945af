"""A worker process that runs functions, and the pipe to it."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

import pyarrow as pa

from sparklake._lightness import keep_pandas_out
from sparklake.config import S3_CONNECT_SECONDS, S3_READ_SECONDS
from sparklake.errors import LostWorkerError
from sparklake.stores.objects.s3_waits import timeouts

# glibc allocates blocks of 128 KiB and more from the system one by one, and returns each when it is
# freed. The system then fills every page with zeros. For readers of ranges this takes a third of
# the time, so these variables keep freed memory. A variable that is already set stays unchanged.
# Other C libraries ignore them.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}


def give_back_memory() -> None:
    """Return the memory that this process keeps for reuse to the system."""
    pa.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


# The path is set first: modules must not be searched in this process's working folder.
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from sparklake.engine.worker import serve; serve(int(sys.argv[1]))"
)
_GRACE_SECONDS = 5.0
_BUSY_SECONDS = 1.0


class TaskTraceback(Exception):  # noqa: N818  (no error of its own, but where one was raised)
    """The worker's traceback of an error, attached as the cause of that error."""


class Worker:
    """The driver's end of a worker, which runs one call at a time."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (this interpreter)
                [sys.executable, "-c", _START, str(theirs.fileno()), *map(str, sys.path)],
                env={**ENVIRONMENT, **_timeouts(), **os.environ},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a module-level function in the worker; raise its error or LostWorkerError."""
        call = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        try:
            self._pipe.send_bytes(call)
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise LostWorkerError(self._obituary()) from error
        # The bytes come from our own process over our own pipe.
        result, raised, trace = pickle.loads(answer)  # noqa: S301  (our own pipe)
        if raised is not None:
            raise raised from TaskTraceback(f"\n{trace}")
        return result

    def stop(self) -> None:
        """Ask the worker to stop its call and to clean up."""
        self._process.terminate()

    def join(self, end: float | None = None) -> None:
        """Wait until the worker has ended; kill it if it takes too long.

        `end` is a time of the monotonic clock.
        """
        try:
            self._process.wait(_GRACE_SECONDS if end is None else max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Close the pipe of a worker that has ended."""
        self._pipe.close()

    def _obituary(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        status = self._process.returncode
        how = f"was killed by signal {-status}" if status and status < 0 else "has ended"
        return (
            f"the worker process {self.pid} {how} (status {status}) while it ran a task. The "
            "usual cause is too little memory. Nothing was published. Run it again with "
            "fewer processes (SPARKLAKE_WORKERS, 1 for only this process) or on Spark "
            "(--engine spark)"
        )


def _timeouts() -> dict[str, str]:
    """Return the environment variables with this process's timeouts for a worker."""
    given = timeouts()
    seconds = {S3_CONNECT_SECONDS: given.connect_seconds, S3_READ_SECONDS: given.read_seconds}
    return {name: str(value) for name, value in seconds.items()}


def serve(descriptor: int) -> None:
    """Run a worker: answer calls until the driver stops it or ends."""
    signal.signal(signal.SIGTERM, _leave)
    keep_pandas_out()
    pipe, calls = Connection(descriptor), SimpleQueue[bytes]()
    threading.Thread(target=_listen, args=(pipe, calls), daemon=True).start()
    with suppress(OSError):
        while True:
            pipe.send_bytes(_answer(_next(calls)))


def _leave(*_: object) -> NoReturn:
    # Exit by an exception, so that temporary folders are removed.
    sys.exit(128 + signal.SIGTERM)


def _listen(pipe: Connection, calls: SimpleQueue[bytes]) -> None:
    """Pass on calls; when the driver has ended, end this process even during a call."""
    with suppress(EOFError, OSError):
        while True:
            calls.put(pipe.recv_bytes())
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)


def _next(calls: SimpleQueue[bytes]) -> bytes:
    try:
        return calls.get(timeout=_BUSY_SECONDS)
    except Empty:
        # An idle worker returns its spare memory to the system.
        give_back_memory()
        return calls.get()


def _answer(call: bytes) -> bytes:
    """Return the result of a call, or its error and traceback, pickled."""
    try:
        function, arguments = pickle.loads(call)  # noqa: S301  (our own pipe)
        answer = (function(*arguments), None, "")
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  (it is raised in the driver)
        return pickle.dumps((None, _portable(error), traceback.format_exc()))


def _portable(error: Exception) -> Exception:
    """Return an error unchanged, or a RuntimeError if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (just made)
    except Exception:  # noqa: BLE001  (pickling a foreign error may raise anything)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
