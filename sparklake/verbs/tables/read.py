"""Reads of tables at refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparklake.delta_log.table_files import FILE_SCHEMA, data_files
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.formats import VERSION_AS_OF, check_no_log, has_log
from sparklake.verbs.tables.other_formats import check_no_other, check_supported
from sparklake.verbs.tables.parquet_view import PARQUET, find_parquet_view, no_data_file
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.view import View
from sparklake.verbs.tables.write_request import DELTA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_table(
    context: Context, table: TableVersion, table_format: str | None, options: Mapping[str, Any]
) -> DataFrame:
    """Return the rows of a table, including partition columns.

    By default, a table with a Delta log is read as Delta, and others as Parquet. Both are read
    through a Delta log of the version, so that Spark prunes partitions and files. Other formats,
    and all formats without Delta, are read from a list of files.
    """
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import (
        check_delta,
        has_delta,
        load_delta,
        missing_client,
    )

    table_format = table_format or _found_format(table)
    check_supported(table_format)
    if table_format != DELTA:
        check_plain(context, table)
    spark, view = context.runners.session(), None
    if table_format == DELTA:
        check_delta(spark)
    with missing_client():
        if table_format == DELTA or (table_format == PARQUET and has_delta(spark)):
            view = _view(context, table, table_format, options)
        if view is None:
            return _read_files(context, table, table_format, options)
        # A view is one version, and the options of a Parquet table are applied in its schema.
        delta_options = options.items() if table_format == DELTA else ()
        own = {name: each for name, each in delta_options if name.lower() != VERSION_AS_OF.lower()}
        rows = load_delta(spark, view.uri, own)
        # Spark Connect checks nothing before the schema is requested.
        _ = rows.schema
        return rows


def view_table(
    context: Context, table: TableVersion, table_format: str | None, options: Mapping[str, Any]
) -> str:
    table_format = table_format or _found_format(table)
    check_supported(table_format)
    if table_format not in (DELTA, PARQUET):
        raise InvalidInputError(f"a view needs the format parquet or delta, not {table_format}")
    if table_format == PARQUET:
        check_plain(context, table)
    view = _view(context, table, table_format, options)
    if view is None:
        raise InvalidInputError(
            f"{table.path!r} at {table.ref!r} cannot be shown as a Delta table: it has column "
            "types or names that Delta does not support, an option that views do not "
            f"support, or {context.info.storage_namespace} is not writable"
        )
    return view.uri


def _found_format(table: TableVersion) -> str:
    return DELTA if has_log(table) else PARQUET


def _view(
    context: Context, table: TableVersion, table_format: str, options: Mapping[str, Any]
) -> View | None:
    if table_format == DELTA:
        return context.table_format.find_view(context, table, options)
    return find_parquet_view(context, table, options)


def check_plain(context: Context, table: TableVersion) -> None:
    """Reject an empty path, a Delta table or its partition, and other formats."""
    if next(iter(table.objects), None) is None:
        raise no_data_file(table)
    check_no_other(table.other, table.path, table.ref)
    check_no_log(table)
    parts = above = table.path.strip("/").split("/")
    while above and "=" in above[-1]:
        above = above[:-1]
    if above and above != parts:
        check_no_log(open_table(context, table.ref, "/".join(above)))


def _read_files(
    context: Context, table: TableVersion, table_format: str, options: Mapping[str, Any]
) -> DataFrame:
    from sparklake.frames.tables.exact_files import infers_types, read_files

    columns, batches = PartitionColumns(), []
    for batch in data_files(table.objects.batches(), table.folder, spark_uris):
        columns.add(batch.column("relative"))
        batches.append(batch)
    files = pa.Table.from_batches(batches, FILE_SCHEMA)
    if not files.num_rows:
        raise no_data_file(table)
    spark = context.runners.session()
    types = columns.types(infers=infers_types(spark))
    return read_files(spark, files, types, table_format, options)
