"""A small Spark session for many tiny tables: one core, interpreted plans."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark import found_jars, spark_environment
from sparklake import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@contextmanager
def small_session(folder: Path) -> Iterator[SparkSession]:
    """Start a session, with its files in a folder."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    builder = SparkSession.builder.appName("sparklake-campaign").master("local[1]")
    for name, value in _settings(folder).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Delta warns of each DELETE and UPDATE.
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


_EXTENSIONS = {
    "delta-": "io.delta.sql.DeltaSparkSessionExtension",
    # For ALTER TABLE ... ADD PARTITION FIELD.
    "iceberg-": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
"""The extensions of Spark, by the beginning of their jar's name."""


def _settings(folder: Path) -> dict[str, str]:
    jars = found_jars()
    extensions = [
        extension
        for name, extension in _EXTENSIONS.items()
        if any(each.name.startswith(name) for each in jars)
    ]
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": folder.as_uri(),
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.debug.maxToStringFields": "1000",
        "spark.databricks.delta.snapshotPartitions": "1",
        # For tables of twenty rows, the compilation of plans takes most of the time.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{session.LOGGING_OPTION} {_JVM}",
    }
