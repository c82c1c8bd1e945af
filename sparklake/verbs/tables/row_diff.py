"""Differing rows of a table at two refs. Only differing files are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.metadata import registry
from sparklake.session import job_description
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import kept_commit
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.registry import PARQUET, found_format, get_format
from sparklake.verbs.tables.spark_places import handled_uri
from sparklake.verbs.tables.version import table_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from sparklake.frames.tables.row_diff import SchemaChange
    from sparklake.verbs.tables.format import TableFormat


_PLAIN = (PARQUET, "orc")
"""Formats whose files contain the schema."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The numbers of differing rows."""

    added: int = 0
    removed: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class TableDiff:
    """Differences between the rows of a table at two refs, computed on demand.

    `left_files` and `right_files` are the paths of the files to read, of `bytes` in all; of each
    file, Spark reads the compared columns. `schema_changes` are the
    columns that differ in existence or type.
    """

    left_files: tuple[str, ...]
    right_files: tuple[str, ...]
    schema_changes: tuple[SchemaChange, ...]
    bytes: int
    _rows: DataFrame
    _title: str

    def to_df(self) -> DataFrame:
        """Return one row per differing row, in no particular order.

        `change` is added, removed or changed. The key columns follow. `changed_columns` are the
        names of the changed columns, only for changed rows. `left` and `right` are structs of the
        old and new row, null if the row does not exist.
        """
        return self._rows

    def counts(self) -> RowCounts:
        """Count the differing rows.

        Raises:
            InvalidInputError: Several rows have the same key.
        """
        with job_description(self._rows.sparkSession, self._title), _duplicates():
            counts = self._rows.groupBy("change").count().collect()
        return RowCounts(**{row["change"]: row["count"] for row in counts})

    def saved(self, uri: str) -> TableDiff:
        """Write the rows as Parquet, and return the same diff over the written rows."""
        spark = self._rows.sparkSession
        place = handled_uri(spark, uri)
        with job_description(spark, self._title), _duplicates():
            self._rows.write.parquet(place)
        return replace(self, _rows=spark.read.parquet(place))

    def documents(self, limit: int) -> list[Mapping[str, Any]]:
        """Return at most `limit` rows as JSON values.

        Raises:
            InvalidInputError: Several rows have the same key.
        """
        from sparklake.frames.tables.row_values import json_rows

        with job_description(self._rows.sparkSession, self._title), _duplicates():
            return json_rows(self._rows, limit)


def diff_table(
    context: Context,
    refs: tuple[str, str],
    path: str,
    key: Sequence[str],
    table_format: str | None,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
) -> TableDiff:
    """Compare a table at two refs, as committed, by default as Delta or Parquet."""
    if isinstance(key, str) or isinstance(columns, str):
        raise InvalidInputError("the key columns and the columns to compare must be lists of names")
    folder = table_prefix(path)
    kind = None if table_format is None else _format(table_format)
    commits = [kept_commit(context, ref) for ref in refs]
    trees = context.tree(commits[0]), context.tree(commits[1])
    compared = FolderPair(context, folder, refs, trees)
    kind = kind or _detect_format(compared)
    left, right = _sides(compared, kind, options)
    if not (left.is_there or right.is_there):
        raise ObjectNotFoundError(f"neither of {' and '.join(map(repr, refs))} has {path!r}")
    spark, how = context.runners.session(), (kind.name, options)
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import diff_sides as side_files
    from sparklake.frames.tables import row_diff

    schemas = [
        side_files.side_schema(spark, each, *how) if each.is_there else None
        for each in (left, right)
    ]
    # A missing table gets the columns of the other one, and no rows.
    one, other = schemas[0] or schemas[1], schemas[1] or schemas[0]
    assert one is not None
    assert other is not None
    row_diff.check_columns(one, other, key, columns)
    rows = [
        side_files.rows_of(spark, side, row_diff.selected(schema, key, columns), *how)
        for side, schema in ((left, one), (right, other))
    ]
    return TableDiff(
        left.paths,
        right.paths,
        row_diff.schema_changes(one, other),
        left.bytes + right.bytes,
        row_diff.row_diff(rows[0], rows[1], key),
        context.title("diff-table", f"{refs[0]} -> {refs[1]} {path}"),
    )


def _format(name: str) -> TableFormat:
    table_format = get_format(name)
    if table_format.has_metadata or table_format.name in _PLAIN:
        return table_format
    names = ", ".join((*_PLAIN, *(each.name.lower() for each in registry.BUILT_IN)))
    raise InvalidInputError(f"rows of {name!r} cannot be compared: choose {names}")


def _detect_format(compared: FolderPair) -> TableFormat:
    formats = {found_format(each) for each in compared.tables() if each.has_objects}
    if len(formats) > 1:
        refs = " and ".join(map(repr, compared.refs))
        raise InvalidInputError(
            f"{compared.folder!r} is a {' and a '.join(map(str.title, sorted(formats)))} table at "
            f"{refs}: to compare the files of both, export them and compare the copies"
        )
    return get_format(next(iter(formats), PARQUET))


def _sides(
    compared: FolderPair, kind: TableFormat, options: Mapping[str, Any]
) -> tuple[TableSide, TableSide]:
    if kind.has_metadata:
        if options:
            raise InvalidInputError(
                f"{kind.title} tables accept no options, but {sorted(options)} were given"
            )
        from sparklake.frames.tables.spark_sources import check_delta

        check_delta(compared.context.runners.session())
    return kind.sides(compared)


@contextmanager
def _duplicates() -> Iterator[None]:
    from sparklake.frames.tables.row_diff import DUPLICATE

    try:
        yield
    except Exception as error:
        match = re.search(rf"{DUPLICATE} (\{{.*?\}})(?: SQLSTATE|\s|$)", str(error))
        if match is None:
            raise
        raise InvalidInputError(
            f"{DUPLICATE} {match[1]}: choose key columns that identify each row"
        ) from error
