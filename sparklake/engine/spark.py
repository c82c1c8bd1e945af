"""Run task bodies as Spark jobs through the DataFrame API alone.

The same code serves classic Spark and Spark Connect.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sparklake import errors
from sparklake.engine.base import MAX_TASK_RECORDS, Body, Source, Work
from sparklake.engine.ipc import pack, unpack
from sparklake.interrupts import Threads
from sparklake.session import described, is_spark_3
from sparklake.udfs.workspace import TASK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

T = TypeVar("T")


def inheriting(spark: SparkSession, job: Callable[[], T], tag: str) -> Callable[[], T]:
    """Return a job for another thread, with what this one has set for its jobs."""
    from pyspark.util import inheritable_thread_target

    inherit = inheritable_thread_target
    if is_spark_3():
        return inherit(partial(_tagged, spark, job, tag))
    return inherit(spark)(job)  # type: ignore[no-any-return]


def cancel(spark: SparkSession, tag: str) -> None:
    """End the session's jobs, on classic Spark 3.5 those with a tag alone; raise nothing."""
    # Where the JVM is gone, so are its jobs.
    with suppress(Exception):
        spark.interruptAll()
        return
    with suppress(Exception):
        spark.sparkContext.cancelJobsWithTag(tag)


def _tagged(spark: SparkSession, job: Callable[[], T], tag: str) -> T:
    # Classic Spark 3.5 has no other way to end a session's jobs; Connect interrupts them itself.
    with suppress(Exception):
        spark.sparkContext.addJobTag(tag)
    return job()


def packed_tasks(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return batches as a table of TASK_SCHEMA, compressed, a row each."""
    packed = pa.array([pack([each], compression="zstd") for each in batches], pa.binary())
    return pa.table([pa.array(range(len(packed)), pa.int64()), packed], schema=TASK_SCHEMA)


def unpacked_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `packed_tasks` has packed."""
    for batch in batches:
        for packed in batch.column("task"):
            yield from unpack(packed.as_py())


def shipped(runner: SparkRunner, batches: Iterable[pa.RecordBatch], ddl: str) -> DataFrame:
    """Return batches as a DataFrame, a partition each, in their order."""
    return runner.tasks(packed_tasks(batches)).mapInArrow(unpacked_body, ddl)


MAX_PARTITIONS = 10_000

# The results of a job come all at once. A few jobs side by side show how far the work has come, and
# keep a cluster as busy as one would; each is large enough that what it costs by itself is little.
MAX_JOBS = 10
TASKS_OF_A_JOB = 8

# Rows of the driver's are shipped in pieces, of which each core gets as many as the others.
_PIECE_ROWS = 10_000

_INTERRUPT_SECONDS = 0.5

# What bodies yield travels to the driver as Arrow IPC streams, a batch a row: no row is converted,
# and types, time zones and order stay as the body made them.
_PACKED = "batch binary"
_RECORDS = "key binary, stored binary"
_TASKS = "position bigint, task binary"
_RAISED = re.compile(r'sparklake\.errors\.(\w+Error): (\[".*)')


class SparkRunner:
    """Runs every row of work as a Spark task."""

    name = "spark"

    def __init__(self, spark: SparkSession, title: str = "sparklake") -> None:
        self._spark = spark
        self._title = title

    def task_records(self, records: int) -> int:
        """Return the most that a task may read: a task of Spark costs more than a small one."""
        return MAX_TASK_RECORDS

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, a task each; yield results job by job."""
        return self._packed(map(self.tasks, _shares(work)), body)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, fetching one task's results while the next one runs."""
        if not work.num_rows:
            return
        batches = self.tasks(work).mapInArrow(partial(_pack, body), _PACKED)
        with described(self._spark, self._title), _errors_of_tasks():
            for row in batches.toLocalIterator(prefetchPartitions=True):
                yield from unpack(bytes(row.batch))

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Run `body` over the output of `encode`, partitioned and sorted by key."""
        encoded = self._encoded(partial(_reported, encode), source)
        if encoded is None:
            return []
        # Kept, since finding the intervals of keys reads all of it once: `encode` may hash files.
        with kept_rows(encoded) as records:
            # By all of a row: a task that runs again sees the rows of one key in the same order.
            ordered = records.repartitionByRange("key").sortWithinPartitions("key", "stored")
            return list(self._packed([ordered], body))

    def tasks(self, work: pa.Table) -> DataFrame:
        """Return rows of work as a DataFrame: each its own partition, in their order.

        Spark's `repartition` begins anywhere, so some partitions get two rows and some get none.
        """
        frame, count = self._frame(work), min(work.num_rows, MAX_PARTITIONS)
        if count <= 1:
            return frame.coalesce(1)
        return frame.repartitionByRange(count, "position").sortWithinPartitions("position")

    def _frame(self, work: pa.Table) -> DataFrame:
        # As plain rows: Spark 3.5 takes no Arrow table.
        rows = zip(*(each.to_pylist() for each in work.columns), strict=True)
        return self._spark.createDataFrame(list(rows), _TASKS)

    def _encoded(self, encode: Body, source: Source) -> DataFrame | None:
        """Return what `encode` makes of a source; None where the driver has nothing to be read."""
        if hasattr(source, "mapInArrow"):
            return source.mapInArrow(encode, _RECORDS)  # type: ignore[no-any-return]
        if isinstance(source, Work):
            rows = source.rows
            return self.tasks(rows).mapInArrow(encode, _RECORDS) if rows.num_rows else None
        batches = source.to_batches() if isinstance(source, pa.Table) else list(source)
        packed = packed_tasks(_pieces(batches))
        if not packed.num_rows:
            return None
        return self._frame(packed).mapInArrow(partial(_unpacked, encode), _RECORDS)

    def _packed(self, inputs: Iterable[DataFrame], body: Body) -> Iterator[pa.RecordBatch]:
        """Run a job for each input, all at once; yield what a job gives when it is done."""
        jobs = [rows.mapInArrow(partial(_pack, body), _PACKED).collect for rows in inputs]
        with described(self._spark, self._title), _errors_of_tasks():
            for rows in self._finished(jobs):
                yield from (batch for row in rows for batch in unpack(bytes(row.batch)))

    def _finished(self, jobs: Sequence[Callable[[], list[Row]]]) -> Iterator[list[Row]]:
        """Yield the results of jobs as they come.

        A job has a thread of its own, even a single one: this thread would not hear an interrupt
        while it waits for the JVM.
        """
        if not jobs:
            return
        pool, tag = Threads(len(jobs), "sparklake-job"), f"sparklake-{uuid.uuid4().hex}"
        runs = [pool.submit(inheriting(self._spark, job, tag)) for job in jobs]
        pool.shutdown(wait=False)
        with self._interrupted(runs, tag):
            for run in as_completed(runs):
                yield run.result()

    @contextmanager
    def _interrupted(self, runs: Sequence[Future[Any]], tag: str) -> Iterator[None]:
        """End the jobs when the user interrupts, or wants no more of the results."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            patience = 0.0
            # Again and again: a job that is just being made does not notice the first time.
            while wait(runs, patience).not_done:
                cancel(self._spark, tag)
                patience = _INTERRUPT_SECONDS
            raise


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _PIECE_ROWS):
            yield batch.slice(start, _PIECE_ROWS)


def _shares(work: pa.Table) -> Iterator[pa.Table]:
    """Yield rows of work in shares for one job each."""
    if work.num_rows:
        jobs = max(1, min(MAX_JOBS, work.num_rows // TASKS_OF_A_JOB))
        bounds = [work.num_rows * job // jobs for job in range(jobs + 1)]
        for start, stop in pairwise(bounds):
            yield work.slice(start, stop - start)


@contextmanager
def kept_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows while they are in use; Spark computes them anew where it cannot (serverless)."""
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


def _unpacked(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a body over what the driver has packed."""
    yield from body(unpacked_body(batches))


def _pack(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in _reported(body, batches):
        yield pa.record_batch([pa.array([pack([batch])])], names=["batch"])


def _reported(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a body in a task; an error of ours is said in one line, for the driver."""
    try:
        yield from body(batches)
    except errors.SparklakeError as error:
        said = _said(error)
        raised = type(error)(said).with_traceback(error.__traceback__)
        # At the head of the report too: Connect of Spark 3.5 cuts it off after 2,048 characters.
        _first_cause(error).__cause__ = type(error)(said)
        raise raised from error.__cause__


def _said(error: errors.SparklakeError) -> str:
    """Return what makes an error once more, in one line: its message, and what is as short."""
    more = error.__reduce__()[1][1:]
    is_short = all(isinstance(each, str | int) for each in more)
    return json.dumps([str(error), *(more if is_short else ())])


def _first_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _first_cause(error.__cause__)


@contextmanager
def _errors_of_tasks() -> Iterator[None]:
    """Raise what a task raised, where it is one of ours, in place of Spark's report of it."""
    try:
        yield
    except Exception as error:  # of Spark or of py4j, as the call may be
        ours = _find_raised(str(error))
        if ours is None:
            raise
        raise ours from error


def _find_raised(report: str) -> errors.SparklakeError | None:
    """Return the first error in a report whose message is one line; others are its causes."""
    for name, said in _RAISED.findall(report):
        kind: type[errors.SparklakeError] | None = getattr(errors, name, None)
        if kind is not None:
            arguments = [said]
            with suppress(json.JSONDecodeError):
                arguments = json.loads(said)
            return kind(*arguments)
    return None
