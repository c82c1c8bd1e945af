"""Work and task bodies, imported by name in Spark's workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sparklake._scratch import scratch_folder


def work_of(rows: int) -> pa.Table:
    column = [b"task %d" % number for number in range(rows)]
    return pa.table({"position": pa.array(range(rows), pa.int64()), "task": column})


def thread_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the name of the current thread."""
    for _ in batches:
        yield pa.record_batch([pa.array([threading.current_thread().name])], ["thread"])


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
