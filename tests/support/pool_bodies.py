"""Work and bodies for worker processes, which import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sparklake._scratch import scratch_folder


def work_of(rows: int) -> pa.Table:
    column = [b"task %d" % number for number in range(rows)]
    return pa.table({"position": pa.array(range(rows), pa.int64()), "task": column})


def pid_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for position in batch.column("position").to_pylist():
            yield pa.record_batch([pa.array([position]), pa.array([os.getpid()])], ["at", "pid"])


def waiting_body(folder: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Record the start and the process; continue when the folder has a file `go`."""
    for batch in batches:
        for position in batch.column("position").to_pylist():
            with scratch_folder(folder):
                (folder / f"begun-{position}-{os.getpid()}").touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
            (folder / f"done-{position}").touch()
        yield batch.select(["position"])


def first_dies_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if 0 in batch.column("position").to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch.select(["position"])


class UnpicklableError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def unpicklable_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise UnpicklableError("this", "that")
    yield from ()
