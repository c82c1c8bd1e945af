"""Spark's DDL of Arrow schemas."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

_NAMES = {pa.string(): "string", pa.int64(): "bigint", pa.bool_(): "boolean"}


def spark_ddl(schema: pa.Schema) -> str:
    """Return the columns as in `path string, size bigint`. Spark declares all of them nullable."""
    return ", ".join(f"{each.name} {_type(each.type)}" for each in schema)


def _type(kind: pa.DataType) -> str:
    if kinds.is_struct(kind):
        return f"struct<{', '.join(f'{each.name}: {_type(each.type)}' for each in kind)}>"
    if kinds.is_map(kind):
        return f"map<{_type(kind.key_type)}, {_type(kind.item_type)}>"
    if kinds.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    return "timestamp" if kinds.is_timestamp(kind) else _NAMES[kind]
