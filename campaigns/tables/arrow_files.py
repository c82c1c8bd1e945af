"""Table rows in Arrow, and in files on a branch."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from campaigns.tables.choices import Layout
from campaigns.tables.operations import PARQUET, PART, Table, Target
from campaigns.tables.readers import PATH
from sparklake import Branch


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
    result = pa.Table.from_pylist(rows, schema=schema)
    return (
        result.rename_columns([each.upper() for each in result.column_names])
        if is_upper
        else result
    )


def put_files(branch: Branch, table: Table, target: Target, random: Random) -> None:
    """Put rows as Parquet files of Spark's names, each in its partition."""
    rows = [*table.rows.values()]
    random.shuffle(rows)
    files: dict[str, bytes] = {}
    parts = sorted({row[PART] for row in rows}, key=repr) if target.is_partitioned else [None]
    for part in parts:
        own = [row for row in rows if part is None or row[PART] == part]
        folder = "" if part is None else f"{PART}={part}/"
        for number in range(min(target.files, len(own))):
            name = f"part-{number:05}-{UUID(int=random.getrandbits(128))}-c000.snappy.parquet"
            body = BytesIO()
            share = replace(table, rows=dict(enumerate(own[number :: target.files])))
            pq.write_table(arrow_table(share, target.is_upper, part is None), body)
            files[f"{PATH}/{folder}{name}"] = body.getvalue()
    if files:
        branch.put_many(files)


def change_format(branch: Branch, table: Table, layout: Layout) -> None:
    """Replace the table by one of another format, with the same rows."""
    branch.delete_prefix(f"{PATH}/")
    if table.format == PARQUET:
        target = Target(table, PARQUET, layout.is_partitioned)
        put_files(branch, table, target, layout.random("format", branch.name))
        return
    from deltalake import write_deltalake

    with tempfile.TemporaryDirectory() as folder:
        parts = [PART] if layout.is_partitioned else None
        write_deltalake(folder, arrow_table(table), partition_by=parts)
        files = [each for each in Path(folder).rglob("*") if each.is_file()]
        names = {f"{PATH}/{each.relative_to(folder)}": each.read_bytes() for each in files}
        branch.put_many(names)
