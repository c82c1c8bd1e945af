"""The engine for each plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.config import BucketWrites, Engine
from sparklake.engine.base import MAX_TASK_RECORDS, UNWATCHED, Progress, Runner, shared_task_records
from sparklake.session import active_session, spark_session
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.engine.spark import SparkRunner
    from sparklake.engine.threads import ThreadRunner

# From benchmarks/results/thresholds.md.

THREAD_RECORDS = 20_000
"""The minimum number of records for several threads."""

SPARK_RECORDS = 20_000_000
"""The minimum number of records for a Spark job, if a session exists.

Threads are faster on one machine. A Spark job is for plans shared by several machines.
"""

TITLE = "sparklake"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a plan and its reason. "local" is one thread, "threads" is all cores."""

    engine: str
    reason: str
    task_records: int


@dataclass(slots=True)
class Runners:
    """The runners of a lake. Threads or a JVM start on first use.

    `workers` is the number of threads for a plan. None is one per usable core, plus one to work
    while others wait for the disk.
    """

    engine: Engine = Engine.AUTO
    spark: SparkSession | None = None
    workers: int | None = None
    progress: Progress = UNWATCHED
    bucket_writes: BucketWrites = BucketWrites.AUTO
    _threads: ThreadRunner | None = None

    def choose(self, records: int, title: str = TITLE) -> Runner:
        engine = self.choice(records).engine
        if engine == "spark":
            return self.on_spark(title)
        if engine == "threads":
            return self.on_threads()
        # Lazy import: it loads Arrow, which a command without a plan does not need.
        from sparklake.engine.threads import LocalRunner

        return LocalRunner()

    def choice(self, records: int) -> EngineChoice:
        """Return the engine for a plan of the given size. Nothing starts."""
        if self.engine is Engine.SPARK:
            return EngineChoice("spark", "the engine is set by the user", MAX_TASK_RECORDS)
        reason = f"{count_of(records, 'record')} to read"
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

    def on_threads(self) -> ThreadRunner:
        # Lazy import: a command without a plan must not pay for it.
        from sparklake.engine.threads import ThreadRunner

        if self._threads is None:
            self._threads = ThreadRunner(self.workers or _default_workers())
        return self._threads

    def on_spark(self, title: str = TITLE) -> SparkRunner:
        """Return the Spark runner. `title` is the description of its jobs in the Spark UI."""
        # Lazy import: local plans must not pay for importing Spark.
        from sparklake.engine.spark import SparkRunner

        return SparkRunner(self.session(), title)

    def session(self) -> SparkSession:
        # Not kept, because the active session may be stopped and replaced.
        return self.spark or spark_session()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()


def _default_workers() -> int:
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return cores + 1 if cores > 1 else 1
