"""Delta as a plug-in for reads and diffs of tables."""

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


class DeltaFormat:
    name = "delta"

    def find_view(self, context: Context, table: TableVersion, options: Mapping[str, Any]) -> View:
        from sparklake.verbs.delta.read import find_delta_view

        return find_delta_view(context, table, options)

    def sides(self, compared: FolderPair) -> tuple[TableSide, TableSide]:
        from sparklake.verbs.delta.diff import delta_sides

        return delta_sides(compared)

    def scan(self, table: TableVersion) -> Scan:
        from sparklake.verbs.delta.scan import scan_delta

        return scan_delta(table)

    def new_files(self, change: TableChange, *, skips: bool) -> Iterable[ScanFile]:
        from sparklake.verbs.delta.stream import new_files

        return new_files(change, skips=skips)
