"""Sources of a Spark session, and errors for missing files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sparklake.errors import InvalidInputError, MissingDependencyError, MissingFileError
from sparklake.session import DELTA_CATALOG, DELTA_EXTENSION, delta_package
from sparklake.stores.objects.addresses import HADOOP_CLIENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Spark's messages of missing files: in a plan; in a task; in a task of 3.5, on disk or in a bucket.
_GONE = re.compile(
    r"^\s*\[PATH_NOT_FOUND\] (?P<path>[^\n]*?)\.?(?: SQLSTATE|\n|$)"
    r"|\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]*? reading file (?P<read>[^\n]*?)\. File does not"
    r"|(?:File (?P<opened>[^\n]*?) does not exist|No such file or directory: (?P<listed>[^\n]*?))"
    r"\s+It is possible the underlying files"
)
_GLOB = re.compile(r"([{}\[\]*?\\])")
_NO_SOURCE = re.compile("DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source")
_NOT_CONFIGURED = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"
_NANOSECONDS = "Illegal Parquet type: INT64 (TIMESTAMP(NANOS"
_NO_CLIENT = re.compile("FileSystem not found|No FileSystem for scheme")
_NO_ICEBERG = re.compile(
    r"Cannot find catalog plugin class|org[./]apache[./]iceberg.*(Error|incompatible)|"
    r"(IncompatibleClassChange|NoClassDefFound|NoSuchMethod)Error.*iceberg"
)
_ICEBERG_JAR = "org.apache.iceberg:iceberg-spark-runtime"
_ICEBERG_JARS = {"3.5": "3.5_2.12:1.12.0", "4.0": "4.0_2.13:1.11.0", "4.1": "4.1_2.13:1.12.0"}
"""The runtime of Iceberg for each version of Spark that has one."""
_NOWHERE = "file:///sparklake/no/such/table"

_asking = Lock()
_for_delta: WeakKeyDictionary[SparkSession, _Missing] = WeakKeyDictionary()


def load(
    spark: SparkSession,
    uris: Iterable[str],
    table_format: str,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> DataFrame:
    """Return the rows of files with literal names."""
    reader = spark.read.format(table_format).options(**options)
    reader = reader.schema(schema) if schema is not None else reader
    return reader.load([_GLOB.sub(r"\\\1", uri) for uri in uris])


def load_delta(spark: SparkSession, uri: str, options: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a Delta table. Paths are literal, unlike those of other sources."""
    return spark.read.format("delta").options(**options).load(uri)


def spark_schema(
    spark: SparkSession, uris: Iterable[str], table_format: str, options: Mapping[str, Any]
) -> StructType:
    """Return Spark's schema of files, with errors as in `reading_files`."""
    with reading_files():
        return load(spark, uris, table_format, options).schema


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session can read Delta tables. Checked once, without reading."""
    return _missing_for_delta(spark) is _Missing.NOTHING


class _Missing(Enum):
    NOTHING = 0
    SETTINGS = 1
    JAR = 2


def _missing_for_delta(spark: SparkSession) -> _Missing:
    """Return a session's missing parts, from the error for a table that does not exist."""
    with _asking:
        if spark not in _for_delta:
            _for_delta[spark] = _Missing.NOTHING
            try:
                # The schema is read because Spark Connect is lazy.
                _ = load_delta(spark, _NOWHERE, {}).schema
            except Exception as error:  # noqa: BLE001  (of Spark or of py4j, as the version may be)
                if lacks_source(error):
                    _for_delta[spark] = _Missing.JAR
                elif _NOT_CONFIGURED in str(error):
                    _for_delta[spark] = _Missing.SETTINGS
        return _for_delta[spark]


def check_delta(spark: SparkSession) -> None:
    missing = _missing_for_delta(spark)
    if missing is _Missing.NOTHING:
        return
    package = delta_package()
    lacking = [
        f"the setting {name}={value}"
        for name, value in (DELTA_EXTENSION, DELTA_CATALOG)
        if value not in (spark.conf.get(name, None) or "")
    ]
    if missing is _Missing.JAR:
        lacking.insert(0, f"the jar {package or 'io.delta:delta-spark'}")
    install = "" if package else "pip install 'sparklake[delta]', and "
    raise MissingDependencyError(
        f"this Spark session cannot read Delta tables: it lacks {' and '.join(lacking)}. A running "
        f"session cannot be changed: {install}start one with all of this, or use a session that "
        "sparklake starts"
    )


def forget_delta(spark: SparkSession, uri: str) -> None:
    """Drop a table from Delta's cache, which keeps 3 MB or more per table for an hour.

    Never raises. On Spark Connect the cache is out of reach.
    """
    with suppress(Exception):
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(uri)
        jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(spark._jsparkSession, path)


def check_iceberg(spark: SparkSession, catalog: str) -> None:
    """Load a configured Iceberg catalog, or report the missing jar."""
    try:
        spark.catalog.tableExists(f"{catalog}.t")
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        if not _NO_ICEBERG.search(str(error)):
            raise
        version = ".".join(spark.version.split(".")[:2])
        jar = _ICEBERG_JARS.get(version)
        remedy = (
            f"it lacks the jar {_ICEBERG_JAR}-{jar} or a later version of it. A running session "
            "cannot be changed: start one with it, as in "
            f"--packages {_ICEBERG_JAR}-{jar}"
            if jar
            else f"Iceberg has no jar for Spark {version}. Write from Spark "
            f"{' or '.join(_ICEBERG_JARS)}, or in the formats delta or parquet; reads need no jar"
        )
        raise MissingDependencyError(
            f"this Spark session cannot write Iceberg tables: {remedy}"
        ) from error


@contextmanager
def missing_files() -> Iterator[None]:
    """Raise MissingFileError for Spark's error of a missing file in a plan or a task."""
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        match = _GONE.search(str(error))
        if match is None:
            raise
        place = next(filter(None, match.groups()))
        raise MissingFileError(
            f"a data file of the table is missing: {place}. It was moved or deleted outside "
            "the lake. Restore it there, or commit its removal"
        ) from error


@contextmanager
def reading_files() -> Iterator[None]:
    """Raise MissingFileError for a missing file, InvalidInputError for times in nanoseconds."""
    try:
        with missing_files():
            yield
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        if _NANOSECONDS not in str(error):
            raise
        raise InvalidInputError(
            "Spark cannot read timestamps in nanoseconds, which pandas writes to Parquet: write "
            "them with to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True), "
            "or read the files with pandas through lakefs://. With the setting "
            "spark.sql.legacy.parquet.nanosAsLong=true, Spark reads them as integers"
        ) from error


def lacks_source(error: BaseException) -> bool:
    return _NO_SOURCE.search(str(error)) is not None


def lacks_client(error: BaseException) -> bool:
    return _NO_CLIENT.search(str(error)) is not None


@contextmanager
def missing_client() -> Iterator[None]:
    """Raise MissingDependencyError if Spark has no client for the bucket."""
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        if not lacks_client(error):
            raise
        raise MissingDependencyError(
            f"this Spark session lacks a client that reads tables in this bucket: add "
            f"{HADOOP_CLIENTS} of Spark's Hadoop version to its jars, or read without Spark, "
            "through lakefs://"
        ) from error
