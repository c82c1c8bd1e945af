"""The port of table formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.keys import Interval
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.edits import Copied
from sparklake.verbs.tables.unions import TableUnion, UnitedRows
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.parquet_scan import Scan, ScanFile
    from sparklake.verbs.tables.stream_reads import TableChange

VERSION_AS_OF = "versionAsOf"

Meets: TypeAlias = Callable[[Interval], bool]
"""Whether both sides of a merge changed ranges of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """A table format.

    - `find_view` returns the view of a table version with options and a user's schema, and writes
      it if necessary; None if the files do not permit it.
    - `sides` returns the differing files of two refs.
    - `scan` returns the columns and the valid files of a table version.
    - `new_files` returns the files with rows that a commit adds.
    - `find_rows` returns the changed rows of a table in a merge, or None if it is no such table.
    - `stream_options` returns the options of a write for a query and the number of a micro-batch,
      if any, by which the format skips a repeated one. None: streams cannot write the format.

    A format with metadata, which lists the valid files, also has these:

    - `copied` yields a private copy of a table for a write or an edit.
    - `unite` returns the union of a table that both sides of a merge changed, or None if a merge by
      keys is correct.
    - `read` returns the rows with the format's own reader, if the session has it.
    - `replacing` are options of a write that also replaces the columns.
    """

    name: str
    find_view: Callable[[Context, TableVersion, Mapping[str, Any], StructType | None], View | None]
    sides: Callable[[FolderPair], tuple[TableSide, TableSide]]
    scan: Callable[[TableVersion], Scan]
    new_files: Callable[[TableChange], Iterable[ScanFile]]
    find_rows: Callable[[Context, ThreeWayTrees, str, Rows], UnitedRows[Any] | None]
    stream_options: Callable[[str, int], Mapping[str, Any]] | None = None
    copied: Copied | None = None
    unite: (
        Callable[[Context, ThreeWayTrees, bytes, Resolution, Meets], TableUnion | None] | None
    ) = None
    read: Callable[[Context, TableVersion, Mapping[str, Any]], DataFrame] | None = None
    replacing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_metadata(self) -> bool:
        return self.copied is not None

    @property
    def title(self) -> str:
        return self.name.title()
