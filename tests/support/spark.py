"""The Spark of the tests: one session for a test run, classic or Spark Connect.

A process can have only one of the two. SPARKLAKE_TEST_REMOTE=local[2] selects Connect.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.spark import JARS, found_jars, spark_environment
from sparklake import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "SPARKLAKE_TEST_REMOTE"
"""Names the variable that holds the address of Spark Connect, and is not set for classic Spark."""


IS_3 = version("pyspark").startswith("3.")
"""Tells whether this is the oldest Spark that is supported, 3.5."""

# What Spark 3.5 is warned of: it asks for versions by distutils, and pandas for types as of old.
_WARNED_OF_3 = (
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
    "ignore:is_(datetime64tz|categorical)_dtype is deprecated:DeprecationWarning",
)
# Before 4.2, Spark leaves the sockets open by which it fetches results from the JVM.
_OPEN_SOCKETS = (
    r"ignore:unclosed <socket\.socket .*laddr=\('127\.0\.0\.1':ResourceWarning",
    r"ignore:Exception ignored in. <socket\.socket .*laddr=\('127\.0\.0\.1'",
)


def pytest_configure(config: pytest.Config) -> None:
    is_old = IS_3 or version("pyspark").startswith(("4.0", "4.1"))
    for each in (*(_WARNED_OF_3 if IS_3 else ()), *(_OPEN_SOCKETS if is_old else ())):
        config.addinivalue_line("filterwarnings", each)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    started = start_session(tmp_path_factory.mktemp("warehouse"))
    yield started
    started.stop()


def start_session(warehouse: Path) -> SparkSession:
    """Start local Spark with two cores, quiet, in UTC, and with the tests' Python."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    remote = os.environ.get(REMOTE)
    builder = SparkSession.builder.appName("sparklake-tests")
    builder = builder.remote(remote) if remote else builder.master("local[2]")
    for name, value in _settings(warehouse).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        # Connect starts its server with all settings, then fails to set the fixed ones again.
        warnings.filterwarnings("ignore", r"Failed to set spark\.", UserWarning)
        if IS_3:
            # It would look for the jar of Connect by what tests it, which numpy 2 breaks.
            patch.setitem(sys.modules, "pyspark.testing", None)
        return builder.getOrCreate()


def check_on_connect(tests: str, marker: str) -> None:
    """Run the tests of a folder, selected by a marker expression, on Spark Connect."""
    # Under SPARK_TESTING a local server takes a free port instead of always the same one.
    environment = {**os.environ, REMOTE: "local[2]", "SPARK_TESTING": "1"}
    # It ends after two failures, because each may wait for a timeout.
    options = ["-p", "no:cacheprovider", "--tb=short", "--maxfail=2", "--durations=10"]
    command = [sys.executable, "-m", "pytest", *options, "-m", marker, tests]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    summary = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", summary) or "skipped" in summary:
        pytest.fail(f"on Spark Connect:\n{done.stdout}\n{done.stderr[-5000:]}", pytrace=False)


def has_iceberg() -> bool:
    """Return whether Iceberg's jar exists for this version of Spark."""
    return any(each.name.startswith("iceberg-") for each in JARS.glob("*.jar"))


_EXTENSIONS = {
    "io.delta.sql.DeltaSparkSessionExtension": True,
    # For ALTER TABLE ... ADD PARTITION FIELD, and in Spark 3.5 for CALL.
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions": has_iceberg(),
}


def _settings(warehouse: Path) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        "spark.jars": ",".join(map(str, found_jars())),
        "spark.sql.extensions": ",".join(name for name, used in _EXTENSIONS.items() if used),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # As users have it: under SPARK_TESTING, Delta for Spark 3.5 names files in another way.
        "spark.databricks.delta.testOnly.dataFileNamePrefix": "",
        "spark.databricks.delta.testOnly.dvFileNamePrefix": "",
        # Of a small log, fifty tasks would each sort a row or none.
        "spark.databricks.delta.snapshotPartitions": "1",
        # Delta would keep 3 MB of each table for an hour, until the JVM only collects garbage.
        "spark.databricks.delta.delta.log.cacheSize": "10",
        # Of a few rows, compiling a query takes longer than running it. Submitted jobs do compile.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        # Spark describes each plan for its UI, also where it has none.
        "spark.sql.ui.explainMode": "simple",
        "spark.driver.extraJavaOptions": session.LOGGING_OPTION,
    }
