"""Rows of a table in Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from campaigns.tables.operations import PART, Table


def arrow_table(table: Table, is_upper: bool = False, has_part: bool = True) -> pa.Table:
    """Return the rows with a struct for the columns with dots."""
    kinds = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string()}
    fields: dict[str, Any] = {}
    for column, name in table.columns.items():
        kind = kinds[table.type_of(column)]
        outer, _, inner = name.partition(".")
        if inner:
            fields.setdefault(outer, []).append(pa.field(inner, kind))
        elif column != PART or has_part:
            fields[outer] = kind
    schema = pa.schema(
        [(n, pa.struct(each) if isinstance(each, list) else each) for n, each in fields.items()]
    )
    rows = []
    for row in table.rows.values():
        cells: dict[str, Any] = {}
        for column, name in table.columns.items():
            outer, _, inner = name.partition(".")
            if inner:
                cells.setdefault(outer, {})[inner] = row.get(column)
            else:
                cells[outer] = row.get(column)
        rows.append(cells)
    made = pa.Table.from_pylist(rows, schema=schema)
    return made.rename_columns([each.upper() for each in made.column_names]) if is_upper else made
