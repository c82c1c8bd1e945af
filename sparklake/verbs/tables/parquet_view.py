"""Views of Parquet files as Delta tables, for Spark to prune partitions and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sparklake.errors import ObjectNotFoundError, StorePermissionError
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.graveler.sums import bounded, column_sum
from sparklake.metadata.delta.table_files import hashes, plain_files, repeated
from sparklake.metadata.delta.view_log import TableShape
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.registry import PARQUET
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View, view_of, write_view

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

MERGE_SCHEMA = "mergeSchema"

_VERSION = 1
"""The only version of a view. Readers could mistake a log of version 0 for an empty one."""

_MERGES = "spark.sql.parquet.mergeSchema"


def find_parquet_view(
    context: Context,
    table: TableVersion,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> View | None:
    """Find or write the view. Returns None if the store or Delta does not support it.

    Without a given schema, it has that of the first file, or of all merged.
    """
    from sparklake.frames.tables.parquet_views import read_settings

    if set(options) - {MERGE_SCHEMA}:
        return None
    spark = context.runners.session()
    merges = str(options.get(MERGE_SCHEMA, spark.conf.get(_MERGES, "false"))).lower() == "true"
    terms = (PARQUET, merges, read_settings(spark))
    schema_terms = () if schema is None else (schema.json(),)
    view = view_of(context, table, _VERSION, *terms, *schema_terms)
    if not view.exists:
        listing = _FileTotals.of(table)
        shape = _shape(spark, view, table, listing, schema, merges=merges)
        if shape is None:
            return None
        try:
            write_view(view, table, shape, listing.shared, listing.size)
        except StorePermissionError:
            return None
    return view


def _shape(
    spark: SparkSession,
    view: View,
    table: TableVersion,
    listing: _FileTotals,
    user_schema: StructType | None,
    *,
    merges: bool,
) -> TableShape | None:
    from sparklake.frames.tables.exact_files import split_schema, with_partitions
    from sparklake.frames.tables.parquet_views import reader_features
    from sparklake.frames.tables.partitions import inferred_types
    from sparklake.frames.tables.spark_sources import spark_schema

    uris: Sequence[str] = [listing.first]
    if merges and user_schema is None:
        files = plain_files(table.objects.batches(), table.folder, spark_uris)
        uris = list(chain.from_iterable(each.column("uri").to_pylist() for each in files))
    types = listing.columns.types(inferred_types(spark))
    if user_schema is None:
        stored = spark_schema(spark, uris, PARQUET, {MERGE_SCHEMA: merges})
    else:
        stored, folders = split_schema(user_schema, types)
        types = dict(folders)
    schema = with_partitions(stored, types)
    features = reader_features(schema)
    if features is None:
        return None
    return TableShape(view.id, schema.json(), list(types), features)


@dataclass(slots=True)
class _FileTotals:
    """The totals of a table's files, with one number per file in memory."""

    first: str = ""
    size: int = 0
    columns: PartitionColumns = field(default_factory=PartitionColumns)
    shared: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @staticmethod
    def of(table: TableVersion) -> _FileTotals:
        listing, numbers = _FileTotals(), []
        observe = listing.columns.add_files
        for batch in plain_files(table.objects.batches(), table.folder, spark_uris, observe):
            listing.first = listing.first or next(iter(batch.column("uri").to_pylist()), "")
            listing.size = bounded(listing.size + column_sum(batch.column("size").to_numpy()))
            numbers.append(hashes(batch.column("uri")))
        if not listing.first:
            raise no_data_file(table, listing.columns)
        listing.shared = repeated(numbers)
        return listing


def no_data_file(
    table: TableVersion, columns: PartitionColumns | None = None
) -> ObjectNotFoundError:
    """Return the error for a table without rows, with the reason for those in other folders."""
    stray, reason = columns and columns.stray, ""
    if stray:
        reason = (
            f", only in folders that are no partitions, such as {stray!r}: read these one by one, "
            "or all files with the option recursiveFileLookup=true"
        )
    elif set(table.path) & set("*?["):
        reason = (
            ": paths are literal, without wildcards. Read its folder and filter a partition "
            "column, or pass several paths"
        )
    return ObjectNotFoundError(f"{table.ref!r} has no data file under {table.path!r}{reason}")
