"""Chooses where a plan runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparklake.config import Engine
from sparklake.engine.base import Runner
from sparklake.engine.local import LocalRunner
from sparklake.session import active_session, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.engine.spark import SparkRunner

SPARK_RECORDS = 2_000_000
"""From how many records on a plan is worth a Spark job, where a session is at hand."""


@dataclass(slots=True)
class Runners:
    """Holds the runners of a lake. Nothing here starts a JVM before one is needed."""

    engine: Engine = Engine.AUTO
    spark: SparkSession | None = None
    _local: LocalRunner = field(default_factory=LocalRunner)

    def choose(self, records: int) -> Runner:
        """Returns the runner for a plan that reads some number of records."""
        if self.engine is Engine.LOCAL:
            return self._local
        if self.engine is Engine.SPARK:
            return self.on_spark()
        if records >= SPARK_RECORDS and (self.spark or active_session()) is not None:
            return self.on_spark()
        return self._local

    def on_spark(self) -> SparkRunner:
        """Returns the Spark runner, with the session given, the one at hand, or a new one."""
        # Not at the top: what runs locally must not pay for importing Spark.
        from sparklake.engine.spark import SparkRunner

        return SparkRunner(self.session())

    def session(self) -> SparkSession:
        """Returns the session given, the one at hand, or a new one."""
        if self.spark is None:
            self.spark = spark_session()
        return self.spark
