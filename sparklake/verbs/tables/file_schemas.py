"""Column types of Parquet files, which must agree within a table.

Spark reads all files of a table with the schema of one. A file with another type for a column then
makes the table unreadable.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import InvalidUriError, StoreUnreachableError
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.content import ObjectContent
from sparklake.verbs.objects.open_files import ContentReader

ColumnTypes = Mapping[str, str]
"""Spark's names of types by lower-case column name; "" is a type that is not compared."""

_FOOTER_BYTES = 64 * 1024


def column_types(schema: pa.Schema) -> ColumnTypes:
    """Return Spark's types of a Parquet file's columns."""
    return {each.name.lower(): _kind(each.type) for each in schema}


def find_file_types(found: ObjectInfo, ref: str) -> ColumnTypes | None:
    """Return the types in the footer of a file, or None if it is not readable Parquet."""
    raw = ContentReader(ObjectContent(found, ref), found.path)
    try:
        with pq.ParquetFile(
            io.BufferedReader(raw, _FOOTER_BYTES), coerce_int96_timestamp_unit="us"
        ) as file:
            return column_types(file.schema_arrow)
    except StoreUnreachableError:
        raise
    except (pa.ArrowException, OSError, InvalidUriError):
        # Whoever reads the table gets the error of this file.
        return None


def differing_types(one: ColumnTypes, other: ColumnTypes) -> list[str]:
    """Return texts such as "price (double, string)" for common columns of different types."""
    common = (name for name in one if one[name] and other.get(name))
    return [f"{name} ({one[name]}, {other[name]})" for name in common if one[name] != other[name]]


_SPARK_NAMES = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.bool_(): "boolean",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.date32(): "date",
    pa.date64(): "date",
}


def _kind(kind: pa.DataType) -> str:
    """Return Spark's name of a type, without time zones; "" for an unusual type."""
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_timestamp(kind):
        return "timestamp in nanoseconds" if kind.unit == "ns" else "timestamp"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _nested(kind) if types.is_nested(kind) else _SPARK_NAMES.get(kind, "")


def _nested(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return _joined("map", [_kind(kind.key_type), _kind(kind.item_type)])
    if pa.types.is_struct(kind):
        inner = ((each.name, _kind(each.type)) for each in kind)
        return _joined("struct", [name and f"{field}:{name}" for field, name in inner])
    return _joined("array", [_kind(kind.value_type)])


def _joined(name: str, inner: Sequence[str]) -> str:
    return f"{name}<{','.join(inner)}>" if all(inner) else ""
