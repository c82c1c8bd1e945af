"""Runs bodies as Spark jobs, by the DataFrame API alone: classic Spark and Spark Connect alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparklake import errors
from sparklake.engine.base import MAX_TASK_RECORDS, Body, Source, Work
from sparklake.engine.ipc import pack, unpack
from sparklake.session import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

MAX_PARTITIONS = 10_000

# The results of a job come all at once. A few jobs side by side show how far the work has come, and
# keep a cluster as busy as one would; each is large enough that what it costs by itself is little.
MAX_JOBS = 10
TASKS_OF_A_JOB = 8

_INTERRUPT_SECONDS = 0.5

# What bodies yield travels to the driver as Arrow IPC streams, a batch a row: no row is converted,
# and types, time zones and order stay as the body made them.
_PACKED = "batch binary"
_RECORDS = "key binary, stored binary"
_TASKS = "position bigint, task binary"
_RAISED = re.compile(r"sparklake\.errors\.(\w+Error): (.*)")


class SparkRunner:
    """Runs every row of work as a Spark task."""

    name = "spark"

    def __init__(self, spark: SparkSession, title: str = "sparklake") -> None:
        self._spark = spark
        self._title = title

    def task_records(self, records: int) -> int:
        """Returns the most that a task may read: a task of Spark costs more than a small one."""
        return MAX_TASK_RECORDS

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work, a task each; yields results job by job."""
        return self._packed(map(self.tasks, _shares(work)), body)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work, fetching one task's results while the next one runs."""
        if not work.num_rows:
            return
        batches = self.tasks(work).mapInArrow(partial(_pack, body), _PACKED)
        with described(self._spark, self._title), _errors_of_tasks():
            for row in batches.toLocalIterator(prefetchPartitions=True):
                yield from unpack(bytes(row.batch))

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Runs `body` over the output of `encode`, partitioned and sorted by key."""
        rows = source if hasattr(source, "mapInArrow") else self._held(source)
        if rows is None:
            return []
        # Kept, since finding the intervals of keys reads all of it once: `encode` may hash files.
        with _kept(rows.mapInArrow(partial(_reported, encode), _RECORDS)) as records:
            # By all of a row: a task that runs again sees the rows of one key in the same order.
            ordered = records.repartitionByRange("key").sortWithinPartitions("key", "stored")
            return list(self._packed([ordered], body))

    def tasks(self, work: pa.Table) -> DataFrame:
        """Returns rows of work as a DataFrame: each its own partition, in their order.

        Spark's `repartition` begins anywhere, so some partitions get two rows and some get none.
        """
        if not work.num_rows:
            # Of an empty table Connect would not know the columns.
            return self._spark.createDataFrame([], _TASKS)
        frame, count = self.frame(work), min(work.num_rows, MAX_PARTITIONS)
        if count == 1:
            return frame.coalesce(1)
        return frame.repartitionByRange(count, "position").sortWithinPartitions("position")

    def frame(self, rows: pa.Table) -> DataFrame:
        """Returns Arrow rows as a DataFrame."""
        if _is_4():
            return self._spark.createDataFrame(rows)
        return self._spark.createDataFrame(rows.to_pandas())

    def _held(self, source: Source) -> DataFrame | None:
        if isinstance(source, Work):
            return self.tasks(source.rows) if source.rows.num_rows else None
        batches = source.to_batches() if isinstance(source, pa.Table) else list(source)
        table = pa.Table.from_batches(batches) if batches else pa.table({})
        return self.frame(table) if table.num_rows else None

    def _packed(self, inputs: Iterable[DataFrame], body: Body) -> Iterator[pa.RecordBatch]:
        """Runs a job for each input, all at once; yields what a job gives when it is done."""
        jobs = [rows.mapInArrow(partial(_pack, body), _PACKED).collect for rows in inputs]
        with described(self._spark, self._title), _errors_of_tasks():
            for rows in self._finished(jobs):
                yield from (batch for row in rows for batch in unpack(bytes(row.batch)))

    def _finished(self, jobs: Sequence[Callable[[], list[Row]]]) -> Iterator[list[Row]]:
        """Yields the results of jobs as they come.

        A job has a thread of its own, even a single one: this thread would not hear an interrupt
        while it waits for the JVM.
        """
        if not jobs:
            return
        pool = ThreadPoolExecutor(len(jobs), "sparklake-job")
        runs = [pool.submit(_inheriting(self._spark, job)) for job in jobs]
        pool.shutdown(wait=False)
        with self._interrupted(runs):
            for run in as_completed(runs):
                yield run.result()

    @contextmanager
    def _interrupted(self, runs: Sequence[Future[Any]]) -> Iterator[None]:
        """Ends the session's jobs when the user interrupts, or wants no more of the results."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            patience = 0.0
            # Again and again: a job that is just being made does not notice the first time.
            while wait(runs, patience).not_done:
                # Where the JVM is gone, so are its jobs.
                with suppress(Exception):
                    self._spark.interruptAll()
                patience = _INTERRUPT_SECONDS
            raise


def _shares(work: pa.Table) -> Iterator[pa.Table]:
    """Yields rows of work in shares for one job each."""
    if work.num_rows:
        jobs = max(1, min(MAX_JOBS, work.num_rows // TASKS_OF_A_JOB))
        bounds = [work.num_rows * job // jobs for job in range(jobs + 1)]
        for start, stop in pairwise(bounds):
            yield work.slice(start, stop - start)


def _inheriting(spark: SparkSession, job: Callable[[], list[Row]]) -> Callable[[], list[Row]]:
    """Returns a job for another thread, with what this one has set for its jobs."""
    from pyspark.sql import is_remote
    from pyspark.util import inheritable_thread_target

    inherit = (
        inheritable_thread_target(spark) if is_remote() or _is_4() else inheritable_thread_target
    )
    inheriting: Callable[[], list[Row]] = inherit(job)
    return inheriting


def _is_4() -> bool:
    import pyspark

    version: str = pyspark.__version__
    major, _, _ = version.partition(".")
    return int(major) >= 4


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Keeps rows while they are in use; Spark computes them anew where it cannot (serverless)."""
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException

    try:
        with suppress(PySparkException):
            # On disk: the memory that sorting needs is not there as well.
            rows.persist(StorageLevel.DISK_ONLY)
        yield rows
    finally:
        with suppress(PySparkException):
            rows.unpersist()


def _pack(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in _reported(body, batches):
        yield pa.record_batch([pa.array([pack([batch])])], names=["batch"])


def _reported(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a body in a task; an error of ours gets a message in one line, for the driver."""
    try:
        yield from body(batches)
    except errors.SparklakeError as error:
        message = json.dumps(str(error))
        raised = type(error)(message).with_traceback(error.__traceback__)
        raise raised from error.__cause__


@contextmanager
def _errors_of_tasks() -> Iterator[None]:
    """Raises what a task raised, where it is one of ours, in place of Spark's report of it."""
    try:
        yield
    except Exception as error:  # of Spark or of py4j, as the call may be
        ours = _find_raised(str(error))
        if ours is None:
            raise
        raise ours from error


def _find_raised(report: str) -> errors.SparklakeError | None:
    """Returns the last error of ours in a report: those before it are its causes."""
    for name, message in reversed(_RAISED.findall(report)):
        kind = getattr(errors, name, None)
        if kind is not None:
            with suppress(json.JSONDecodeError):
                message = json.loads(message)
            return kind(message)  # type: ignore[no-any-return]
    return None
