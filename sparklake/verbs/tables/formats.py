"""Detection of Delta tables, and their plug-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sparklake.delta_log.file_names import LOG_FOLDER, log_listing
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.records import Record
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.row_merge import RowMerge, RowSides

VERSION_AS_OF = "versionAsOf"


class TableRows(Protocol):
    """The rows of one table that both sides of a merge changed, for `merged_rows`."""

    @property
    def folder(self) -> str:
        """The path of the table with a slash at its end."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key in the table's own properties, empty without one."""

    @property
    def files(self) -> int:
        """The number of files to read."""

    @property
    def size(self) -> int:
        """The bytes of the files to read."""

    def schemas(self) -> tuple[StructType, StructType, StructType]:
        """Return the columns of base, source and dest."""

    def sides(self) -> RowSides:
        """Return the rows of the changed files."""

    def write(self, merge: RowMerge, place: str) -> Sequence[Record]:
        """Write dest's table with the changes of a merge into the folder of a registered write.

        Returns:
            The records of the merged tree below the table, tombstones for its removed files.
        """


class TableFormat(Protocol):
    """A table format with a log of its valid files."""

    def find_view(self, context: Context, table: TableVersion, options: Mapping[str, Any]) -> View:
        """Return the view of a table version, and write it if necessary."""

    def sides(self, compared: FolderPair) -> tuple[TableSide, TableSide]:
        """Return the differing files."""


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
