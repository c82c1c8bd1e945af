"""Column types of Parquet files. Spark reads all files of a table with one schema."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import InvalidUriError, StoreUnreachableError
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.content_file import ContentReader
from sparklake.verbs.base.content import ObjectContent

ColumnTypes = Mapping[str, str]
"""Spark's type names by lower-case column name; "" is an incomparable type.

Types that Spark cannot read have names of their own, so that they differ from all others. Columns
of one name are equal for Spark: it reads either type with the schema of the other.
"""

_FOOTER_BYTES = 64 * 1024


def column_types(parquet: pq.ParquetFile) -> ColumnTypes:
    """Return the types of a file, as stored: labels of other writers do not count."""
    leaves = map(parquet.schema.column, range(len(parquet.schema)))
    return {each.name.lower(): _kind(each.type, leaves) for each in parquet.schema_arrow}


def find_file_types(file: ObjectInfo, ref: str) -> ColumnTypes | None:
    """Return the types in a file's footer, or None unless it is readable Parquet."""
    raw = ContentReader(ObjectContent(file, ref), file.path)
    try:
        buffer = io.BufferedReader(raw, _FOOTER_BYTES)
        with pq.ParquetFile(buffer) as parquet:
            return column_types(parquet)
    except StoreUnreachableError:
        raise
    except (pa.ArrowException, OSError, InvalidUriError):
        # Readers of the table get the error of this file.
        return None


def differing_types(one: ColumnTypes, other: ColumnTypes) -> list[str]:
    """Return texts such as "price (double, string)" for columns of differing types."""
    common = (name for name in one if one[name] and other.get(name))
    return [f"{name} ({one[name]}, {other[name]})" for name in common if one[name] != other[name]]


_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "INT96": "timestamp",
    "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"), "binary"),
}
_LOGICAL = {
    **dict.fromkeys(("String", "Enum", "JSON"), "string"),
    "BSON": "binary",
    "Date": "date",
    "Null": "void",
}
_SIGNED = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_UNSIGNED = {8: "smallint", 16: "int", 32: "bigint", 64: "decimal(20,0)"}


def _kind(kind: pa.DataType, leaves: Iterator[pq.ColumnSchema]) -> str:
    """Return Spark's name of a type, from its shape and its stored columns; "" if unknown."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _kind(kind.storage_type, leaves)
    if not types.is_nested(kind):
        return _stored_kind(next(leaves))
    if types.is_map(kind):
        name, inner = "map", [_kind(each, leaves) for each in (kind.key_type, kind.item_type)]
    elif types.is_struct(kind):
        fields = [(each.name, _kind(each.type, leaves)) for each in kind]
        name, inner = "struct", [each and f"{field}:{each}" for field, each in fields]
    else:
        name, inner = "array", [_kind(kind.value_type, leaves)]
    return f"{name}<{','.join(inner)}>" if all(inner) else ""


def _stored_kind(column: pq.ColumnSchema) -> str:
    logical = json.loads(column.logical_type.to_json())
    kind: str = logical["Type"]
    if kind == "None":
        return _PHYSICAL[column.physical_type]
    if kind == "Int":
        return (_SIGNED if logical["isSigned"] else _UNSIGNED)[logical["bitWidth"]]
    if kind == "Decimal":
        return f"decimal({column.precision},{column.scale})"
    if kind not in ("Time", "Timestamp"):
        return _LOGICAL.get(kind, kind.lower())
    unit, is_instant = logical["timeUnit"], logical["isAdjustedToUTC"]
    if kind == "Timestamp" and unit != "nanoseconds":
        return "timestamp" if is_instant else "timestamp_ntz"
    is_time_of_day = kind == "Time" and unit == "microseconds" and not is_instant
    return "time" if is_time_of_day else f"{kind.lower()} in {unit}"
