"""Reads of tables at refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparklake.errors import InvalidInputError, MissingDependencyError, ObjectNotFoundError
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.metadata.delta.table_files import FILE_SCHEMA, data_files, plain_files
from sparklake.rows.objects import ObjectInfo
from sparklake.session import quoted
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import kept_object
from sparklake.verbs.tables.foreign import check_no_metadata
from sparklake.verbs.tables.parquet_view import no_data_file
from sparklake.verbs.tables.registry import PARQUET, found_format, get_format
from sparklake.verbs.tables.version import TableVersion, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.verbs.tables.format import TableFormat

_RECURSIVE = "recursivefilelookup"


def read_tables(
    context: Context,
    tables: Sequence[TableVersion],
    table_format: str | None,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> DataFrame:
    """Return the rows of one or several paths; several have one schema, as in Spark's reader."""
    if len(tables) == 1:
        return read_table(context, tables[0], table_format, options, schema)
    for each in tables:
        if _format(each, table_format).has_metadata:
            name = table_format or found_format(each)
            raise InvalidInputError(
                f"{name.title()} tables are read one by one: load {each.path!r} alone, and combine "
                "the rows with unionByName"
            )
        check_plain(each, _find_file(context, each))
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import missing_client

    with missing_client():
        return _read_files(context, tables, table_format or PARQUET, options, schema)


def read_table(
    context: Context,
    table: TableVersion,
    table_format: str | None,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> DataFrame:
    """Return the rows of a table or of one file, including partition columns.

    By default, a table with a Delta log is read as Delta, one with Iceberg's metadata as Iceberg,
    and others as Parquet. Iceberg's own reader reads its tables if the session has the jar. All
    others are read through a Delta log of the version, so that Spark prunes partitions and files.
    Other formats, and Parquet without Delta, are read from a list of files.
    """
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import (
        check_delta,
        has_delta,
        load_delta,
        missing_client,
    )

    how = _format(table, table_format)
    file = None if how.has_metadata else _find_file(context, table)
    if not how.has_metadata:
        check_plain(table, file)
    elif schema is not None:
        raise InvalidInputError(
            f"{table.path!r} is a {how.title} table at {table.ref!r}, whose metadata "
            "has the schema: read it without .schema(...), and select columns"
        )
    spark, view = context.runners.session(), None
    if how.has_metadata:
        rows = _read_by_own_reader(context, table, how, options)
        if rows is not None:
            return rows
        check_delta(spark)
    with missing_client():
        if how.has_metadata or (file is None and how.name == PARQUET and has_delta(spark)):
            view = how.find_view(context, table, options, schema)
        if view is None:
            return _read_files(context, [table], how.name, options, schema)
        rows = load_delta(spark, view.uri, view.options)
        # Spark Connect checks nothing before the schema is requested.
        _ = rows.schema
        return rows


def _read_by_own_reader(
    context: Context, table: TableVersion, how: TableFormat, options: Mapping[str, Any]
) -> DataFrame | None:
    """Use the format's own reader; None if it has none, or the session lacks its jar.

    None also means that only a view can be read, because files are at other addresses.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.spark_sources import has_delta

    if how.read is None:
        return None
    try:
        rows = how.read(context, table, options)
        # Spark Connect checks nothing before the schema is requested.
        _ = rows.schema
        return rows
    except MissingDependencyError:
        return None
    except InvalidInputError:
        if has_delta(context.runners.session()):
            return None
        raise


def view_table(
    context: Context, table: TableVersion, table_format: str | None, options: Mapping[str, Any]
) -> str:
    how = _format(table, table_format)
    if not (how.has_metadata or how.name == PARQUET):
        raise InvalidInputError(
            f"a view needs the format parquet, delta or iceberg, not {how.name}"
        )
    if not how.has_metadata:
        check_plain(table)
    view = how.find_view(context, table, options, None)
    if view is None:
        raise InvalidInputError(
            f"{table.path!r} at {table.ref!r} cannot be shown as a Delta table: it has column "
            "types or names that Delta does not support, an option that views do not "
            f"support, or {context.info.storage_namespace} is not writable"
        )
    return view.uri


def has_table(context: Context, table: TableVersion) -> bool:
    """Return whether a ref has a folder, or a file, of the table's path."""
    return table.has_objects or _find_file(context, table) is not None


def is_only_in_catalog(context: Context, ref: str, name: str) -> bool:
    """Return whether Spark's catalog has a table of this name, and the ref has none."""
    if has_table(context, open_table(context, ref, name)):
        return False
    return context.runners.session().catalog.tableExists(quoted(name))


def _format(table: TableVersion, name: str | None) -> TableFormat:
    return get_format(found_format(table) if name is None else name)


def _find_file(context: Context, table: TableVersion) -> ObjectInfo | None:
    """Return the object at the path itself, if nothing is below it."""
    if table.has_objects:
        return None
    with suppress(ObjectNotFoundError):
        return kept_object(context, table.ref, table.path)
    return None


def check_plain(table: TableVersion, file: ObjectInfo | None = None) -> None:
    """Reject an empty path, and tables with metadata or parts of them."""
    if file is None and not table.has_objects:
        raise no_data_file(table)
    check_no_metadata(table, is_file=file is not None)


def _read_files(
    context: Context,
    tables: Sequence[TableVersion],
    table_format: str,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> DataFrame:
    from sparklake.frames.tables.exact_files import read_files
    from sparklake.frames.tables.partitions import inferred_types

    columns, batches = PartitionColumns(), list[pa.RecordBatch]()
    lower = {name.lower(): str(value).lower() for name, value in options.items()}
    is_recursive = lower.get(_RECURSIVE) == "true"
    for table in tables:
        before = len(batches)
        batches += _data_files(context, table, None if is_recursive else columns)
        if not sum(map(len, batches[before:])):
            raise no_data_file(table, columns)
    files = pa.Table.from_batches(batches, FILE_SCHEMA)
    spark = context.runners.session()
    types = columns.types(inferred_types(spark))
    return read_files(spark, files, types, table_format, options, schema)


def _data_files(
    context: Context, table: TableVersion, columns: PartitionColumns | None
) -> Iterator[pa.RecordBatch]:
    """Yield a table's files, and add their folders to `columns`; without, all files below it."""
    file, batches = _find_file(context, table), table.objects.batches()
    if file is not None:
        name = file.path.rpartition("/")[2]
        row = {"uri": spark_uri(file.address), "relative": name, "size": file.size, "mtime": 0}
        yield pa.RecordBatch.from_pylist([row], FILE_SCHEMA)
    elif columns is None:
        yield from data_files(batches, table.folder, spark_uris)
    else:
        yield from plain_files(batches, table.folder, spark_uris, columns.add_files)
