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

# What Spark says of a plan, less the state of SQL and a server's stack; of a task; of one in 3.5,
# on disk and in a bucket.
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
    """Return the rows of files, whatever characters are in their names."""
    reader = spark.read.format(table_format).options(**options)
    reader = reader.schema(schema) if schema is not None else reader
    return reader.load([_GLOB.sub(r"\\\1", uri) for uri in uris])


def load_delta(spark: SparkSession, uri: str, options: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a Delta table; unlike other sources, Delta takes a name as it is."""
    return spark.read.format("delta").options(**options).load(uri)


def schema_of(
    spark: SparkSession, uris: Iterable[str], table_format: str, options: Mapping[str, Any]
) -> StructType:
    """Return the schema of files, as Spark reads it; raise MissingFileError."""
    with missing_files():
        return load(spark, uris, table_format, options).schema


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session reads Delta tables; it is asked once, and nothing is read.

    No part of the public API says what is installed, but a place that is not there is refused for
    that, or for the source that is not there.
    """
    with _asking:
        if spark not in _has_delta:
            try:
                # The schema, since Spark Connect does nothing before it is asked for something.
                _ = load_delta(spark, _NOWHERE, {}).schema
            except Exception as error:  # noqa: BLE001  (of Spark or of py4j, as the version may be)
                _has_delta[spark] = _NO_SOURCE.search(str(error)) is None
            else:
                _has_delta[spark] = True
        return _has_delta[spark]


def check_delta(spark: SparkSession) -> None:
    """Raise MissingDependencyError for a session that reads no Delta tables."""
    if not has_delta(spark):
        raise MissingDependencyError(
            "this session of Spark reads no Delta tables: pip install 'sparklake[delta]', and "
            "start it with delta-spark's jars"
        )


@contextmanager
def missing_files() -> Iterator[None]:
    """Raise MissingFileError where Spark says that a file is not there, in a plan or in a task.

    All other errors pass as they are.
    """
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, as the version may be)
        gone = _GONE.search(str(error))
        if gone is None:
            raise
        place = next(filter(None, gone.groups()))
        raise MissingFileError(
            f"a data file of the table is gone: {place}. It was moved or deleted outside of the "
            "lake; restore it there, or commit its removal"
        ) from error


def lacks_client(error: BaseException) -> bool:
    """Return whether it is what Spark says where it has no client for a bucket."""
    return _NO_CLIENT.search(str(error)) is not None


@contextmanager
def missing_client() -> Iterator[None]:
    """Raise MissingDependencyError where Spark has no client for the bucket that it is to read."""
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, as the version may be)
        if not lacks_client(error):
            raise
        raise MissingDependencyError(
            "tables in a bucket are read by Spark's S3 client, S3A, which this session lacks: add "
            "hadoop-aws of Spark's Hadoop version to its jars, or read without Spark, by lakefs://"
        ) from error
