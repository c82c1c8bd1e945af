"""Compared tables as DataFrames of their differing files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from sparklake.frames.tables.column_names import name_rule
from sparklake.frames.tables.exact_files import union, with_partitions
from sparklake.frames.tables.partitions import inferred_types
from sparklake.frames.tables.row_values import column
from sparklake.frames.tables.spark_sources import load, load_delta, reading_files
from sparklake.frames.tables.table_sides import Partition, SideFile, TableSide

# Files are read singly, so Spark cannot infer values from folders. The values are given.
_READING = {"mergeSchema": "true", "recursiveFileLookup": "true"}


def side_schema(
    spark: SparkSession, side: TableSide, table_format: str, options: Mapping[str, Any]
) -> StructType:
    """Return the columns of a side, from its differing files, a shared file and its folders."""
    if side.view is not None:
        return load_delta(spark, side.view, {}).schema
    fields: dict[str, StructField] = {}
    rule = name_rule(spark)
    for some in (side.files, [side.shared] if side.shared else ()):
        if some:
            for each in _load(spark, some, table_format, options, None).schema.fields:
                fields.setdefault(rule(each.name), each)
    types = side.partitions.types(inferred_types(spark))
    return with_partitions(StructType([*fields.values()]), types)


def rows_of(
    spark: SparkSession,
    side: TableSide,
    schema: StructType,
    table_format: str,
    options: Mapping[str, Any],
) -> DataFrame:
    """Return the rows of differing files, with the given columns."""
    if side.view is not None:
        return load_delta(spark, side.view, {}).select(*map(column, schema.names))
    if not side.files:
        return spark.createDataFrame([], schema)
    parts = []
    for partition, some in _scans(side.files):
        values = {name: value for name, value in partition if name in schema.names}
        stored = StructType([each for each in schema.fields if each.name not in values])
        rows = _load(spark, some, table_format, options, stored)
        columns = [
            F.lit(values[each.name]).cast(each.dataType).alias(each.name)
            if each.name in values
            else column(each.name)
            for each in schema.fields
        ]
        parts.append(rows.select(*columns))
    return union(parts)


def _scans(files: Iterable[SideFile]) -> Iterator[tuple[Partition, list[SideFile]]]:
    """Yield the files of one partition, each once: Spark reads a path once per scan."""
    groups: dict[tuple[Partition, int], list[SideFile]] = {}
    counts: Counter[tuple[Partition, str]] = Counter()
    for each in files:
        times = counts[each.partition, each.uri]
        counts[each.partition, each.uri] += 1
        groups.setdefault((each.partition, times), []).append(each)
    for (partition, _), some in groups.items():
        yield partition, some


def _load(
    spark: SparkSession,
    files: Iterable[SideFile],
    table_format: str,
    options: Mapping[str, Any],
    schema: StructType | None,
) -> DataFrame:
    uris = [each.uri for each in files]
    with reading_files():
        rows = load(spark, uris, table_format, {**options, **_READING}, schema)
        _ = rows.schema  # Spark Connect checks nothing earlier.
    return rows
