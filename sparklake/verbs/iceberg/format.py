"""Iceberg as a plug-in for reads and diffs of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

# Lazy imports: Arrow takes 0.25 s, which opening a repository does not need.
if TYPE_CHECKING:
    from sparklake.frames.tables.parquet_scan import Scan, ScanFile
    from sparklake.frames.tables.table_sides import TableSide
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.tables.diff_sides import FolderPair
    from sparklake.verbs.tables.stream_reads import TableChange
    from sparklake.verbs.tables.version import TableVersion
    from sparklake.verbs.tables.view import View


class IcebergFormat:
    name = "iceberg"

    def find_view(self, context: Context, table: TableVersion, options: Mapping[str, Any]) -> View:
        from sparklake.verbs.iceberg.read import find_iceberg_view

        return find_iceberg_view(context, table, options)

    def sides(self, compared: FolderPair) -> tuple[TableSide, TableSide]:
        from sparklake.verbs.iceberg.read import iceberg_sides

        return iceberg_sides(compared)

    def scan(self, table: TableVersion) -> Scan:
        from sparklake.verbs.iceberg.read import reject_scan

        reject_scan(table)

    def new_files(self, change: TableChange, *, skips: bool) -> Iterable[ScanFile]:
        from sparklake.verbs.iceberg.read import reject_scan

        reject_scan(change.after)
