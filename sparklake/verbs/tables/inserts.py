"""Rows for INSERT into existing tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.read import read_table
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def inserted_rows(
    context: Context, table: TableVersion, rows: DataFrame, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return rows with the columns and types of a table, as Spark's INSERT converts them.

    `columns` are the target's columns, one for each of the rows' columns; None is all of them.
    The remaining columns are null.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_views import nullable

    schema = nullable(read_table(context, table, None, {}).schema)
    names = columns or schema.names
    unknown = {each.lower() for each in names} - {each.lower() for each in schema.names}
    if unknown or len(names) != len(rows.columns):
        raise InvalidInputError(
            f"the columns of the rows, {', '.join(rows.columns)}, do not match those of "
            f"{table.path!r}, {', '.join(schema.names)}: select as many, or list their names "
            "as in INSERT INTO t (a, b)"
        )
    return rows.toDF(*names).to(schema)
