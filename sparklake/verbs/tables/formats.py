"""Detection of Delta tables, and their plug-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklake.errors import InvalidInputError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.metadata.delta.file_names import LOG_FOLDER, log_listing
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.frames.tables.parquet_scan import Scan, ScanFile
    from sparklake.verbs.tables.stream_reads import TableChange

VERSION_AS_OF = "versionAsOf"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format with metadata that lists its valid files.

    - `find_view` returns the view of a table version with options, and writes it if necessary.
    - `sides` returns the differing files.
    - `scan` returns the columns and the valid files of a table version.
    - `new_files` returns the files with rows that a commit adds.
    - `read` returns the rows with the format's own reader, if the session has it.
    """

    find_view: Callable[[Context, TableVersion, Mapping[str, Any]], View]
    sides: Callable[[FolderPair], tuple[TableSide, TableSide]]
    scan: Callable[[TableVersion], Scan]
    new_files: Callable[[TableChange], Iterable[ScanFile]]
    read: Callable[[Context, TableVersion, Mapping[str, Any]], DataFrame] | None = None


def has_log(table: TableVersion) -> bool:
    return any(log_listing([each]).versions for each in log_files(table))


def check_no_log(table: TableVersion) -> None:
    """Reject a Delta table, because its folder also contains invalid files."""
    if has_log(table):
        raise InvalidInputError(
            f"{table.path!r} is a Delta table at {table.ref!r}, and only its log determines which "
            "files are valid: use the format 'delta'"
        )


def log_files(table: TableVersion) -> Iterator[tuple[str, ObjectInfo]]:
    folder = f"{table.folder}{LOG_FOLDER}"
    for each in table.objects.within(prefix_interval(key_prefix(folder))):
        yield each.path.removeprefix(folder), each
