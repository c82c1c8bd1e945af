"""Reads of tables from an exact list of files, without listing or copying."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import time
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import lit, when
from pyspark.sql.types import StructType

from sparklake.frames.tables.parquet_views import nullable
from sparklake.frames.tables.row_values import column
from sparklake.frames.tables.spark_sources import load, reading_files
from sparklake.metadata.delta.table_files import Partition, partition_of, partition_value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

Types = Mapping[str, str]
"""The names of partition columns and their types, as DDL."""


def read_files(
    spark: SparkSession,
    files: pa.Table,
    types: Types,
    table_format: str,
    options: Mapping[str, Any],
    user_schema: StructType | None = None,
) -> DataFrame:
    """Return the rows of files, given as FILE_SCHEMA, with their folders' columns.

    `user_schema` has the columns of files, and optionally types of folders.
    """
    uris = files.column("uri").to_pylist()
    if user_schema is not None:
        user_schema, types = split_schema(user_schema, types)
    with reading_files():
        rows = load(spark, uris, table_format, options, user_schema)
        stored = rows.schema
    if not types:
        return rows
    # One schema for all: Spark would infer the type of a partition column for each root.
    schema = with_partitions(stored, types)
    columns, parts = [column(each) for each in schema.names], []
    for root, partition, some in scan_groups(uris, files.column("relative").to_pylist()):
        if root:
            more = {**options, "basePath": root}
            parts.append(load(spark, some, table_format, more, schema).select(*columns))
        else:
            values = {
                name: _literal(partition_value(text), types[name]) for name, text in partition
            }
            part = load(spark, some, table_format, options, stored)
            parts.append(part.withColumns(values).select(*columns))
    return union(parts)


def _literal(text: str | None, kind: str) -> Column:
    """Return a partition value. Sessions may have times only as literals, without casts."""
    if not kind.startswith("time("):
        return lit(text).cast(kind)
    whole, _, fraction = (text or "00:00:00").partition(".")
    value = lit(time.fromisoformat(f"{whole}.{fraction:0<6}"))
    return value if text is not None else when(lit(False), value)


def split_schema(user_schema: StructType, types: Types) -> tuple[StructType, Types]:
    """Return the columns of files in a given schema, and the types of folders: its own first."""
    user_schema = nullable(user_schema)
    own = {each.name.lower(): str(each.dataType.jsonValue()) for each in user_schema.fields}
    folders = {name.lower() for name in types}
    stored = StructType([each for each in user_schema.fields if each.name.lower() not in folders])
    return stored, {name: own.get(name.lower(), kind) for name, kind in types.items()}


def with_partitions(stored: StructType, types: Types) -> StructType:
    """Append the partition columns to a schema. They replace columns of files, as in Spark."""
    folders = {name.lower(): StructType().add(name, kind)[0] for name, kind in types.items()}
    fields = [folders.pop(each.name.lower(), each) for each in stored.fields]
    return StructType([*fields, *folders.values()])


def scan_groups(
    uris: Sequence[str], relatives: Sequence[str]
) -> Iterator[tuple[str | None, Partition, list[str]]]:
    """Yield the files of each scan, grouped by root or partition, whichever has fewer groups."""
    roots = list(map(root_of, uris, relatives))
    partitions = [partition_of(relative) for relative in relatives]
    by_root = len(set(roots)) <= len(set(partitions))
    groups: dict[Hashable, tuple[str | None, Partition, list[str]]] = {}
    for uri, root, partition in zip(uris, roots, partitions, strict=True):
        key = (by_root and root) or partition
        groups.setdefault(key, (root if by_root else None, partition, []))[2].append(uri)
    yield from groups.values()


def root_of(uri: str, relative: str) -> str | None:
    """Return Spark's root for a file's partition, or None."""
    *folders, _ = relative.split("/")
    below = list(dropwhile(lambda folder: "=" not in folder, folders))
    if not uri.endswith(f"/{relative}") or not all("=" in each for each in below):
        return None
    return uri.removesuffix(relative)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """Union the rows of all parts pairwise, to keep the plan shallow."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return union(parts[:middle]).unionByName(union(parts[middle:]))
