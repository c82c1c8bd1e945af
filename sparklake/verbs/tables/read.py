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
from sparklake.verbs.tables.formats import VERSION_AS_OF, check_no_log, has_log
from sparklake.verbs.tables.other_formats import (
    ICEBERG,
    check_no_other,
    check_supported,
    is_iceberg,
)
from sparklake.verbs.tables.parquet_view import PARQUET, find_parquet_view, no_data_file
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.view import View
from sparklake.verbs.tables.write_request import DELTA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

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
        name = table_format or found_format(each)
        if name in context.table_formats:
            raise InvalidInputError(
                f"{name.title()} tables are read one by one: load {each.path!r} alone, and combine "
                "the rows with unionByName"
            )
    table_format = table_format or PARQUET
    check_supported(table_format)
    for each in tables:
        check_plain(context, each, _find_file(context, each))
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import missing_client

    with missing_client():
        return _read_files(context, tables, table_format, options, schema)


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

    table_format, has_metadata = _checked_format(context, table, table_format)
    file = None if has_metadata else _find_file(context, table)
    if not has_metadata:
        check_plain(context, table, file)
    elif schema is not None:
        raise InvalidInputError(
            f"{table.path!r} is a {table_format.title()} table at {table.ref!r}, whose metadata "
            "has the schema: read it without .schema(...), and select columns"
        )
    spark, view = context.runners.session(), None
    if has_metadata:
        rows = _read_by_own_reader(context, table, table_format, options)
        if rows is not None:
            return rows
        check_delta(spark)
    with missing_client():
        if has_metadata or (file is None and table_format == PARQUET and has_delta(spark)):
            view = _view(context, table, table_format, options, schema)
        if view is None:
            return _read_files(context, [table], table_format, options, schema)
        # A view is one version, and the options of a Parquet table are applied in its schema.
        delta_options = options.items() if table_format == DELTA else ()
        own = {name: each for name, each in delta_options if name.lower() != VERSION_AS_OF.lower()}
        rows = load_delta(spark, view.uri, own)
        # Spark Connect checks nothing before the schema is requested.
        _ = rows.schema
        return rows


def _read_by_own_reader(
    context: Context, table: TableVersion, table_format: str, options: Mapping[str, Any]
) -> DataFrame | None:
    """Use the format's own reader; None if it has none, or the session lacks its jar.

    None also means that only a view can be read, because files are at other addresses.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.spark_sources import has_delta

    read = context.table_formats[table_format]().read
    if read is None:
        return None
    try:
        rows = read(context, table, options)
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
    table_format, has_metadata = _checked_format(context, table, table_format)
    if not has_metadata and table_format != PARQUET:
        raise InvalidInputError(
            f"a view needs the format parquet, delta or iceberg, not {table_format}"
        )
    if not has_metadata:
        check_plain(context, table)
    view = _view(context, table, table_format, options)
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


def found_format(table: TableVersion) -> str:
    """Return the format that the metadata shows, or Parquet."""
    if has_log(table):
        return DELTA
    return ICEBERG if is_iceberg(table.other, table.folder) else PARQUET


def _checked_format(context: Context, table: TableVersion, name: str | None) -> tuple[str, bool]:
    """Return the name of a format, and whether it has metadata that lists the files."""
    name = name or found_format(table)
    if name.lower() in context.table_formats:
        return name.lower(), True
    check_supported(name)
    return name, False


def _view(
    context: Context,
    table: TableVersion,
    table_format: str,
    options: Mapping[str, Any],
    schema: StructType | None = None,
) -> View | None:
    if table_format in context.table_formats:
        return context.table_formats[table_format]().find_view(context, table, options)
    return find_parquet_view(context, table, options, schema)


def _find_file(context: Context, table: TableVersion) -> ObjectInfo | None:
    """Return the object at the path itself, if nothing is below it."""
    if table.has_objects:
        return None
    with suppress(ObjectNotFoundError):
        return kept_object(context, table.ref, table.path)
    return None


def check_plain(context: Context, table: TableVersion, file: ObjectInfo | None = None) -> None:
    """Reject an empty path, a part of a Delta table, and other formats."""
    if file is None and not table.has_objects:
        raise no_data_file(table)
    check_no_other(table.other, table.path, table.ref)
    check_no_log(table)
    parts = table.path.strip("/").split("/")
    above = parts if file is None else parts[:-1]
    while above and "=" in above[-1]:
        above = above[:-1]
    if above and above != parts:
        check_no_log(open_table(context, table.ref, "/".join(above)))


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
