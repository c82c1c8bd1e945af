"""The engine for each plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.config import Engine, S3Writes
from sparklake.engine.base import MAX_TASK_RECORDS, UNWATCHED, Progress, Runner, shared_task_records
from sparklake.session import active_session, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.engine.spark import SparkRunner
    from sparklake.engine.threads import LocalRunner, ThreadRunner

# From benchmarks/results/thresholds.md.

THREAD_RECORDS = 20_000
"""The least number of records for which several threads pay."""

SPARK_RECORDS = 20_000_000
"""The least number of records for a Spark job, if a session exists.

On one machine threads are faster. A Spark job is for plans that several machines should share.
"""

TITLE = "sparklake"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a plan and the reason for it. "local" is one thread, "threads" is all cores.

    `task_records` is the number of records per task.
    """

    engine: str
    reason: str
    task_records: int


@dataclass(slots=True)
class Runners:
    """The runners of a lake. Threads or a JVM are started only when needed.

    `workers` is the number of threads that share a plan. None is one per usable core plus one,
    which works while others wait for the disk.
    """

    engine: Engine = Engine.AUTO
    spark: SparkSession | None = None
    workers: int | None = None
    progress: Progress = UNWATCHED
    s3_writes: S3Writes = S3Writes.AUTO
    _local: LocalRunner | None = None
    _threads: ThreadRunner | None = None

    def choose(self, records: int, title: str = TITLE) -> Runner:
        """Return the runner for a plan, by its number of records."""
        engine = self.choice(records).engine
        if engine == "spark":
            return self.on_spark(title)
        return self.on_threads() if engine == "threads" else self.in_process()

    def choice(self, records: int) -> EngineChoice:
        """Return the engine for a plan, by its number of records. Nothing is started."""
        if self.engine is Engine.SPARK:
            return EngineChoice("spark", "the engine is set by the user", MAX_TASK_RECORDS)
        reason = f"{records:,} records to read"
        if self.engine is Engine.AUTO and records >= SPARK_RECORDS:
            if (self.spark or active_session()) is not None:
                reason += f", {SPARK_RECORDS:,} or more"
                return EngineChoice("spark", reason, MAX_TASK_RECORDS)
            reason += ", but there is no Spark session"
        workers = self.workers or _default_workers()
        if workers == 1:
            return EngineChoice("local", f"{reason}, on one core", MAX_TASK_RECORDS)
        if records < THREAD_RECORDS:
            return EngineChoice("local", f"{reason}, below {THREAD_RECORDS:,}", MAX_TASK_RECORDS)
        reason = f"{reason}, {THREAD_RECORDS:,} or more, with {workers} threads"
        return EngineChoice("threads", reason, shared_task_records(records, workers))

    def in_process(self) -> LocalRunner:
        """Return the runner in this process."""
        # Lazy import: it loads Arrow, which a command without a plan does not need.
        from sparklake.engine.threads import LocalRunner

        if self._local is None:
            self._local = LocalRunner()
        return self._local

    def on_threads(self) -> ThreadRunner:
        """Return the runner on this machine's cores."""
        # Lazy import: a small command must not pay for it.
        from sparklake.engine.threads import ThreadRunner

        if self._threads is None:
            self._threads = ThreadRunner(self.workers or _default_workers())
        return self._threads

    def on_spark(self, title: str = TITLE) -> SparkRunner:
        """Return the Spark runner, with the given session, the active one or a new one.

        `title` is the description of its jobs in the Spark UI.
        """
        # Lazy import: local plans must not pay for importing Spark.
        from sparklake.engine.spark import SparkRunner

        return SparkRunner(self.session(), title)

    def session(self) -> SparkSession:
        """Return the given session, the active one or a new one."""
        # Not kept, because the active session may be stopped and replaced.
        return self.spark or spark_session()

    def close(self) -> None:
        """Stop the threads, if any. A Spark session is not stopped."""
        if self._threads is not None:
            self._threads.close()


def _default_workers() -> int:
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return cores + 1 if cores > 1 else 1
