"""Plans of table scans: the columns and files of a version, for Python data sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.frames.tables.partitions import PartitionColumns, inferred_types
from sparklake.metadata.delta.table_files import partition_of, partition_value, plain_files
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.parquet_view import PARQUET, no_data_file
from sparklake.verbs.tables.read import check_plain, found_format
from sparklake.verbs.tables.version import TableVersion, open_table

if TYPE_CHECKING:
    from sparklake.frames.tables.parquet_scan import Scan, ScanFile


def plan_scan(context: Context, ref: str, path: str) -> Scan:
    """Plan a read of a Parquet or Delta table.

    The columns are those of the first Parquet file and the folders, or those of the Delta log.
    """
    table = open_table(context, ref, path)
    name = found_format(table)
    if name != PARQUET:
        return context.table_formats[name]().scan(table)
    check_plain(context, table)
    return _scan_parquet(table)


def _scan_parquet(table: TableVersion) -> Scan:
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import parquet_scan as scans
    from sparklake.frames.tables.exact_files import with_partitions

    columns, files = PartitionColumns(), []
    addresses = table.objects.batches()
    for batch in plain_files(addresses, table.folder, lambda each: each, columns.add_files):
        rows = (batch.column(each).to_pylist() for each in ("relative", "uri", "size"))
        for relative, address, size in zip(*rows, strict=True):
            files.append(parquet_file(table, relative, address, size))
    if not files:
        raise no_data_file(table, columns)
    schema = with_partitions(scans.stored_schema(files[0]), columns.types(inferred_types(None)))
    what = f"{table.path!r} at {table.ref!r}"
    return scans.checked(scans.Scan(schema, [*columns.values], files), what)


def parquet_file(table: TableVersion, name: str, address: str, size: int) -> ScanFile:
    """Return a file of a Parquet table, whose folders are the partition."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import ScanFile

    folders = partition_of(f"{name.rpartition('/')[0]}/")
    values = {column: partition_value(text) for column, text in folders}
    return ScanFile(f"{table.folder}{name}", address, size, values)
