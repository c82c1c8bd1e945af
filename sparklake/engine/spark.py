"""An engine of Spark jobs, based on DataFrames only, for classic Spark and Spark Connect."""

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
from sparklake.engine.base import MAX_TASK_RECORDS, Body, Sortable, Source, Work
from sparklake.engine.ddl import spark_ddl
from sparklake.engine.sort import source_batches
from sparklake.graveler.arrow_batches import pack_batches, unpack
from sparklake.interrupts import Threads
from sparklake.session import is_spark_3, job_description
from sparklake.udfs.tasks import packed_rows, task_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

T = TypeVar("T")


def inheriting(spark: SparkSession, job: Callable[[], T], tag: str) -> Callable[[], T]:
    """Wrap a job for another thread, with this thread's job properties."""
    from pyspark.util import inheritable_thread_target as inherit

    if is_spark_3():
        return inherit(partial(_tagged, spark, job, tag))
    return inherit(spark)(job)  # type: ignore[no-any-return]


def cancel(spark: SparkSession, tag: str) -> None:
    """Cancel the session's jobs; on classic Spark 3.5, jobs with a tag only. Never raises."""
    # If the JVM is gone, its jobs are gone, too.
    with suppress(Exception):
        spark.interruptAll()
        return
    with suppress(Exception):
        spark.sparkContext.cancelJobsWithTag(tag)


def _tagged(spark: SparkSession, job: Callable[[], T], tag: str) -> T:
    # Classic Spark 3.5 cancels jobs by tag only. Connect interrupts them itself.
    with suppress(Exception):
        spark.sparkContext.addJobTag(tag)
    return job()


def packed_tasks(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Pack and compress each batch into a row of TASK_SCHEMA."""
    return task_table([pack_batches([each], compression="zstd") for each in batches])


def shipped(runner: SparkRunner, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> DataFrame:
    return runner.tasks(packed_tasks(batches)).mapInArrow(packed_rows, spark_ddl(schema))


MAX_PARTITIONS = 10_000

# The results of a job come all at once. A few concurrent jobs show progress and keep a cluster as
# busy as one job. Each job is so large that its own cost is small.
MAX_JOBS = 10
TASKS_OF_A_JOB = 8

# The driver's rows travel in pieces, so that all cores get the same number.
_PIECE_ROWS = 10_000

_INTERRUPT_SECONDS = 0.5

# Bodies' output travels to the driver as Arrow IPC streams, one batch per row. No row is converted,
# so types, time zones and order stay the same.
_PACKED = "batch binary"
_RECORDS = "key binary, stored binary"
_TASKS = "position bigint, task binary"
_TEXT = "string"
_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_SORTED_TYPES = {_TEXT, *_NUMBERS, "boolean", "timestamp", "timestamp_ntz"}
_RAISED = re.compile(r'sparklake\.errors\.(\w+Error): (\[".*)')


class SparkRunner:
    name = "spark"

    def __init__(self, spark: SparkSession, title: str = "sparklake") -> None:
        self._spark = spark
        self._title = title

    def task_records(self, records: int) -> int:
        return MAX_TASK_RECORDS  # A Spark task costs more than small tasks save.

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body with a task per row of work, and yield results job by job."""
        return self._packed(map(self.tasks, _shares(work)), body)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body, and fetch the results of a task while the next one runs."""
        if not work.num_rows:
            return
        batches = self.tasks(work).mapInArrow(partial(_pack, body), _PACKED)
        with job_description(self._spark, self._title), errors_of_tasks():
            for row in self._fetched(batches):
                yield from unpack(bytes(row.batch))

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        if isinstance(source, Sortable):
            if order := _order(source):
                # Rows sorted before they are encoded come to Python only once.
                ordered = source.rows.repartitionByRange(source.by).sortWithinPartitions(*order)
                return list(self._packed([ordered], partial(_chained, encode, body)))
            source = source.rows
        encoded = self._encoded(partial(reported, encode), source)
        if encoded is None:
            return []
        # Persisted, because range partitioning reads all rows again, and `encode` may hash files.
        with kept_rows(encoded) as records:
            # Sorted by all columns, so that a rerun task gets the rows of a key in the same order.
            ordered = records.repartitionByRange("key").sortWithinPartitions("key", "stored")
            return list(self._packed([ordered], body))

    def tasks(self, work: pa.Table) -> DataFrame:
        """Return rows of work as a DataFrame, one row per partition, in order.

        Spark's `repartition` starts at a random partition, so some would get two rows or none.
        """
        frame, count = self._frame(work), min(work.num_rows, MAX_PARTITIONS)
        if count <= 1:
            return frame.coalesce(1)
        return frame.repartitionByRange(count, "position").sortWithinPartitions("position")

    def _frame(self, work: pa.Table) -> DataFrame:
        # Spark 3.5 does not accept Arrow tables.
        rows = zip(*(each.to_pylist() for each in work.columns), strict=True)
        return self._spark.createDataFrame(list(rows), _TASKS)

    def _encoded(self, encode: Body, source: Source) -> DataFrame | None:
        if hasattr(source, "mapInArrow"):
            return source.mapInArrow(encode, _RECORDS)  # type: ignore[no-any-return]
        if isinstance(source, Work):
            rows = source.rows
            return self.tasks(rows).mapInArrow(encode, _RECORDS) if rows.num_rows else None
        packed = packed_tasks(source_batches(source, _PIECE_ROWS))
        if not packed.num_rows:
            return None
        return self._frame(packed).mapInArrow(partial(_chained, packed_rows, encode), _RECORDS)

    def _packed(self, inputs: Iterable[DataFrame], body: Body) -> Iterator[pa.RecordBatch]:
        """Run one job per input concurrently, and yield the results of each finished job."""
        jobs = [rows.mapInArrow(partial(_pack, body), _PACKED).collect for rows in inputs]
        with job_description(self._spark, self._title), errors_of_tasks():
            for rows in self._finished(jobs):
                yield from (batch for row in rows for batch in unpack(bytes(row.batch)))

    def _fetched(self, rows: DataFrame) -> Iterator[Row]:
        """Yield rows while their job runs, fetched by its own thread like those of `_finished`."""
        pool, tag = Threads(1, "sparklake-rows"), _new_tag()

        def result(call: Callable[[], T]) -> T:
            with self._interrupted(tag) as runs:
                runs.append(run := pool.submit(call))
                return run.result()

        with pool:
            iterator = result(inheriting(self._spark, partial(rows.toLocalIterator, True), tag))
            while row := result(partial(next, iterator, None)):
                yield row

    def _finished(self, jobs: Sequence[Callable[[], list[Row]]]) -> Iterator[list[Row]]:
        """Yield the results of jobs as they finish.

        Even a single job has its own thread: a thread in the JVM gets no interrupts, and one that
        an interrupt ends in gRPC may keep a lock of the channel.
        """
        if not jobs:
            return
        pool, tag = Threads(len(jobs), "sparklake-job"), _new_tag()
        with self._interrupted(tag) as runs:
            runs.extend(pool.submit(inheriting(self._spark, job, tag)) for job in jobs)
            pool.shutdown(wait=False)
            for run in as_completed(runs):
                yield run.result()

    @contextmanager
    def _interrupted(self, tag: str) -> Iterator[list[Future[Any]]]:
        """Yield a list for runs; cancel them when the user interrupts, or stops reading results."""
        runs: list[Future[Any]] = []
        try:
            yield runs
        except (KeyboardInterrupt, GeneratorExit):
            patience = 0.0
            # Cancel repeatedly: a starting job misses the first request.
            while wait(runs, patience).not_done:
                cancel(self._spark, tag)
                patience = _INTERRUPT_SECONDS
            raise


def _new_tag() -> str:
    return f"sparklake-{uuid.uuid4().hex}"


def _order(source: Sortable) -> list[str]:
    """Return the sort columns: all but maps, so that a rerun task sees the same order.

    Empty if Spark does not sort strings by their bytes.
    """
    types = {each.name: each.dataType.simpleString() for each in source.rows.schema}
    if types.pop(source.by) != _TEXT:
        return []
    return [source.by, *(name for name, kind in types.items() if kind in _SORTED_TYPES)]


def _chained(
    encode: Body, body: Body, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from body(encode(batches))


def _shares(work: pa.Table) -> Iterator[pa.Table]:
    if work.num_rows:
        jobs = max(1, min(MAX_JOBS, work.num_rows // TASKS_OF_A_JOB))
        bounds = [work.num_rows * job // jobs for job in range(jobs + 1)]
        for start, stop in pairwise(bounds):
            yield work.slice(start, stop - start)


@contextmanager
def kept_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Persist rows while in use. Serverless Spark recomputes them instead."""
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException

    try:
        with suppress(PySparkException):
            # On disk: sorting needs the memory.
            rows.persist(StorageLevel.DISK_ONLY)
        yield rows
    finally:
        with suppress(PySparkException):
            rows.unpersist()


def _pack(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in reported(body, batches):
        yield pa.record_batch([pa.array([pack_batches([batch])])], names=["batch"])


def reported(body: Body, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a body in a task, and report a sparklake error to the driver on one line.

    The line is JSON: the message of the error, and its attributes if they are short.
    """
    try:
        yield from body(batches)
    except errors.SparklakeError as error:
        is_short = all(isinstance(each, str | int) for each in vars(error).values())
        line = json.dumps([str(error), vars(error) if is_short else {}])
        report = type(error)(line).with_traceback(error.__traceback__)
        # The first cause gets it, too: Connect of Spark 3.5 truncates reports to 2,048 characters.
        cause: BaseException = error
        while cause.__cause__ is not None and cause.__cause__ is not cause:
            cause = cause.__cause__
        cause.__cause__ = type(error)(line)
        raise report from error.__cause__


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Replace Spark's report with its first one-line sparklake error. Others are causes."""
    try:
        yield
    except Exception as error:  # of Spark or of py4j, depending on the call
        ours = _find_raised(str(error))
        if ours is None:
            raise
        raise ours from error


def _find_raised(report: str) -> errors.SparklakeError | None:
    for name, line in _RAISED.findall(report):
        kind: type[errors.SparklakeError] | None = getattr(errors, name, None)
        if kind is not None:
            message, attributes = line, dict[str, object]()
            with suppress(json.JSONDecodeError):
                message, attributes = json.loads(line)
            error = kind(message)
            vars(error).update(attributes)
            return error
    return None
