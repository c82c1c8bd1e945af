"""Tables of plain files, which contain the schema."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from sparklake.frames.tables.partitions import PartitionColumns, inferred_types
from sparklake.frames.tables.table_sides import TableSide
from sparklake.metadata.delta.table_files import partition_of, partition_value, plain_files
from sparklake.verbs.tables.diff_sides import FolderPair, folder_sides
from sparklake.verbs.tables.foreign import check_no_metadata
from sparklake.verbs.tables.format import TableFormat
from sparklake.verbs.tables.parquet_rows import find_parquet_rows
from sparklake.verbs.tables.parquet_view import find_parquet_view, no_data_file
from sparklake.verbs.tables.read import check_plain
from sparklake.verbs.tables.registry import PARQUET
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklake.frames.tables.parquet_scan import Scan, ScanFile
    from sparklake.verbs.tables.stream_reads import TableChange


def _scan(table: TableVersion) -> Scan:
    """Return the columns of the first Parquet file and the folders, and all files."""
    check_plain(table)
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import parquet_scan as scans
    from sparklake.frames.tables.exact_files import with_partitions

    columns, files = PartitionColumns(), []
    addresses = table.objects.batches()
    for batch in plain_files(addresses, table.folder, lambda each: each, columns.add_files):
        rows = (batch.column(each).to_pylist() for each in ("relative", "uri", "size"))
        for relative, address, size in zip(*rows, strict=True):
            files.append(_file(table, relative, address, size))
    if not files:
        raise no_data_file(table, columns)
    schema = with_partitions(scans.stored_schema(files[0]), columns.types(inferred_types(None)))
    what = f"{table.path!r} at {table.ref!r}"
    return scans.checked(scans.Scan(schema, [*columns.values], files), what)


def _file(table: TableVersion, name: str, address: str, size: int) -> ScanFile:
    """Return a file of a Parquet table, whose folders are the partition."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import ScanFile

    folders = partition_of(f"{name.rpartition('/')[0]}/")
    values = {column: partition_value(text) for column, text in folders}
    return ScanFile(f"{table.folder}{name}", address, size, values)


def _new_files(change: TableChange) -> Iterable[ScanFile]:
    table = change.after
    if table.has_objects:
        check_plain(table)
    if change.altered:
        change.reject(f"changes or removes {len(change.altered)} files")
        return ()
    objects: pa.Table = table.snapshot.lookup([f"{table.folder}{each}" for each in change.added])
    addresses, sizes = objects["address"].to_pylist(), objects["size"].to_pylist()
    return map(partial(_file, table), change.added, addresses, sizes)


def _sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    for table in compared.tables():
        check_no_metadata(table)
    return folder_sides(compared)


FORMAT = TableFormat(
    name=PARQUET,
    find_view=find_parquet_view,
    sides=_sides,
    scan=_scan,
    new_files=_new_files,
    find_rows=find_parquet_rows,
    stream_options=lambda _, __: {},
)
