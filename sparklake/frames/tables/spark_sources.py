"""What a Spark session can read, and the errors for files that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sparklake.errors import MissingDependencyError, MissingFileError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Spark's messages of missing files: in a plan, without SQL state and stack; in a task; and in a
# task of 3.5, on disk and in a bucket.
_GONE = re.compile(
    r"^\s*\[PATH_NOT_FOUND\] (?P<path>[^\n]*?)\.?(?: SQLSTATE|\n|$)"
    r"|\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]*? reading file (?P<read>[^\n]*?)\. File does not"
    r"|(?:File (?P<opened>[^\n]*?) does not exist|No such file or directory: (?P<listed>[^\n]*?))"
    r"\s+It is possible the underlying files"
)
_GLOB = re.compile(r"([{}\[\]*?\\])")
_NO_SOURCE = re.compile("DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source")
_NO_CLIENT = re.compile(r"S3AFileSystem not found|No FileSystem for scheme")
_NOWHERE = "file:///sparklake/no/such/table"

_asking = Lock()
_has_delta: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def load(
    spark: SparkSession,
    uris: Iterable[str],
    table_format: str,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> DataFrame:
    """Return the rows of files. File names may have any characters."""
    reader = spark.read.format(table_format).options(**options)
    reader = reader.schema(schema) if schema is not None else reader
    return reader.load([_GLOB.sub(r"\\\1", uri) for uri in uris])


def load_delta(spark: SparkSession, uri: str, options: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a Delta table. Delta takes a path literally, unlike other sources."""
    return spark.read.format("delta").options(**options).load(uri)


def spark_schema(
    spark: SparkSession, uris: Iterable[str], table_format: str, options: Mapping[str, Any]
) -> StructType:
    """Return the schema of files, as Spark reads it; raise MissingFileError."""
    with missing_files():
        return load(spark, uris, table_format, options).schema


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session reads Delta tables. Checked once, without reading.

    The public API does not list installed sources. The error for a missing path
    distinguishes a missing table from a missing source.
    """
    with _asking:
        if spark not in _has_delta:
            try:
                # The schema is read because Spark Connect is lazy.
                _ = load_delta(spark, _NOWHERE, {}).schema
            except Exception as error:  # noqa: BLE001  (of Spark or of py4j, as the version may be)
                _has_delta[spark] = not lacks_source(error)
            else:
                _has_delta[spark] = True
        return _has_delta[spark]


def check_delta(spark: SparkSession) -> None:
    """Raise MissingDependencyError for a session that cannot read Delta tables."""
    if not has_delta(spark):
        raise MissingDependencyError(
            "this Spark session cannot read Delta tables: pip install 'sparklake[delta]', "
            "and start Spark with delta-spark's jars"
        )


@contextmanager
def missing_files() -> Iterator[None]:
    """Raise MissingFileError for Spark's error of a missing file in a plan or a task.

    All other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        gone = _GONE.search(str(error))
        if gone is None:
            raise
        place = next(filter(None, gone.groups()))
        raise MissingFileError(
            f"a data file of the table is missing: {place}. It was moved or deleted outside "
            "the lake. Restore it there, or commit its removal"
        ) from error


def lacks_source(error: BaseException) -> bool:
    """Return whether an error is Spark's message of a missing data source."""
    return _NO_SOURCE.search(str(error)) is not None


def lacks_client(error: BaseException) -> bool:
    """Return whether an error is Spark's message of a missing client for a bucket."""
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
            "this Spark session lacks the S3 client S3A, which reads tables in buckets: add "
            "hadoop-aws of Spark's Hadoop version to its jars, or read without Spark, "
            "through lakefs://"
        ) from error
