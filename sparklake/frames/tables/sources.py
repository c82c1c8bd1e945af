"""The sources of a Spark session, and tables read from an exact list of files."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import dropwhile
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from sparklake.delta_log.table_files import Partition, partition_of, partition_value
from sparklake.errors import MissingDependencyError, MissingFileError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

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


def schema_of(
    spark: SparkSession, uris: Iterable[str], table_format: str, options: Mapping[str, Any]
) -> StructType:
    """Return the schema of files, as Spark reads it; raise MissingFileError."""
    with missing_files():
        return load(spark, uris, table_format, options).schema


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session reads Delta tables. Checked once, without reading.

    The public API does not list installed sources. The error for a missing path tells a missing
    table from a missing source.
    """
    with _asking:
        if spark not in _has_delta:
            try:
                # The schema is read because Spark Connect is lazy.
                _ = load_delta(spark, _NOWHERE, {}).schema
            except Exception as error:  # noqa: BLE001  (of Spark or of py4j, as the version may be)
                _has_delta[spark] = _NO_SOURCE.search(str(error)) is None
            else:
                _has_delta[spark] = True
        return _has_delta[spark]


def check_delta(spark: SparkSession) -> None:
    """Raise MissingDependencyError for a session that cannot read Delta tables."""
    if not has_delta(spark):
        raise MissingDependencyError(
            "this session of Spark reads no Delta tables: pip install 'sparklake[delta]', and "
            "start it with delta-spark's jars"
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
            f"a data file of the table is gone: {place}. It was moved or deleted outside of the "
            "lake; restore it there, or commit its removal"
        ) from error


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
            "tables in a bucket are read by Spark's S3 client, S3A, which this session lacks: add "
            "hadoop-aws of Spark's Hadoop version to its jars, or read without Spark, by lakefs://"
        ) from error


_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"

Types = Mapping[str, str]
"""The names of partition columns and their types, as DDL."""


def infers_types(spark: SparkSession) -> bool:
    """Return whether a session infers the types of partition columns."""
    return spark.conf.get(_INFERENCE) == "true"


def read_files(
    spark: SparkSession,
    files: pa.Table,
    types: Types,
    table_format: str,
    options: Mapping[str, Any],
) -> DataFrame:
    """Return the rows of files, given as FILE_SCHEMA, with their folders' columns.

    Every file is given to Spark explicitly. Raises MissingFileError for a missing file.
    """
    uris = files.column("uri").to_pylist()
    with missing_files():
        rows = load(spark, uris, table_format, options)
        written = rows.schema
    if not types:
        return rows
    # One schema for all: Spark would infer the type of a partition column for each root.
    schema = with_partitions(written, types)
    parts = []
    for root, partition, some in scans(uris, files.column("relative").to_pylist()):
        if root:
            more = {**options, "basePath": root}
            parts.append(load(spark, some, table_format, more, schema))
        else:
            values = {name: _literal(text, types[name]) for name, text in partition}
            part = load(spark, some, table_format, options, written)
            parts.append(part.withColumns(values).select(schema.names))
    return union(parts)


def with_partitions(written: StructType, types: Types) -> StructType:
    """Return a table's schema from its files' schema and its folders' columns.

    If a file has a folder's column, too, the folder's type wins.
    """
    schema = StructType([each for each in written.fields if each.name not in types])
    for name, kind in types.items():
        schema = schema.add(name, kind)
    return schema


def scans(
    uris: Sequence[str], relatives: Sequence[str]
) -> Iterator[tuple[str | None, Partition, list[str]]]:
    """Yield files that one scan can read, grouped by root or by partition.

    The grouping with fewer groups is used.
    """
    roots = list(map(root_of, uris, relatives))
    partitions = [partition_of(relative) for relative in relatives]
    by_root = len(set(roots)) <= len(set(partitions))
    groups: dict[Hashable, tuple[str | None, Partition, list[str]]] = {}
    for uri, root, partition in zip(uris, roots, partitions, strict=True):
        key = (by_root and root) or partition
        groups.setdefault(key, (root if by_root else None, partition, []))[2].append(uri)
    yield from groups.values()


def root_of(uri: str, relative: str) -> str | None:
    """Return the root from which Spark finds a file's partition, or None."""
    *folders, _ = relative.split("/")
    below = list(dropwhile(lambda folder: "=" not in folder, folders))
    if not uri.endswith(f"/{relative}") or not all("=" in each for each in below):
        return None
    return uri.removesuffix(relative)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all parts, united in halves to keep the plan shallow."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return union(parts[:middle]).unionByName(union(parts[middle:]))


def _literal(text: str, kind: str) -> Column:
    return lit(partition_value(text)).cast(kind)
