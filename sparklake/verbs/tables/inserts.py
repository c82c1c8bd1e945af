"""Rows for INSERT into existing tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.read import read_table
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def inserted_rows(
    context: Context,
    table: TableVersion,
    rows: DataFrame,
    columns: Sequence[str] | None = None,
    without: Collection[str] = (),
) -> DataFrame:
    """Return rows with the columns and types of a table, as Spark's INSERT converts them.

    `columns` are the target's columns, one for each of the rows' columns; None is all of them.
    The remaining columns are null, as are the table's columns of `without`, which rows cannot have.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_views import nullable

    schema = nullable(read_table(context, table, None, {}).schema)
    inserted = [each for each in schema.names if each not in without]
    names = columns or inserted
    unknown = {each.lower() for each in names} - {each.lower() for each in inserted}
    if unknown or len(names) != len(rows.columns):
        raise InvalidInputError(
            f"the columns of the rows, {', '.join(rows.columns)}, do not match those of "
            f"{table.path!r}, {', '.join(inserted)}: select as many, or list their names "
            "as in INSERT INTO t (a, b)"
        )
    return rows.toDF(*names).to(schema)


def static_columns(
    table: TableVersion, columns: Sequence[str], partition: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the partition columns to which a PARTITION clause gives values, outermost first.

    Raises:
        InvalidInputError: It has other columns, or gives a value below a column without one.
    """
    values = {name.lower(): value for name, value in partition.items()}
    static = {name: value for name in columns if (value := values.get(name.lower())) is not None}
    if values.keys() - {each.lower() for each in columns} or [*static] != columns[: len(static)]:
        raise InvalidInputError(
            f"{table.path!r} is partitioned by {', '.join(columns) or 'no column'}: PARTITION may "
            "give values to the first of these columns, and name the others"
        )
    return static
