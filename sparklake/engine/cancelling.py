"""Spark jobs in threads of their own, and how they are ended before they are done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sparklake.session import is_spark_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def inheriting(spark: SparkSession, job: Callable[[], T], tag: str) -> Callable[[], T]:
    """Returns a job for another thread, with what this one has set for its jobs."""
    from pyspark.util import inheritable_thread_target

    inherit = inheritable_thread_target
    if is_spark_3():
        return inherit(partial(_tagged, spark, job, tag))
    return inherit(spark)(job)  # type: ignore[no-any-return]


def cancel(spark: SparkSession, tag: str) -> None:
    """Ends the session's jobs, on classic Spark 3.5 those with a tag alone; raises nothing."""
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
