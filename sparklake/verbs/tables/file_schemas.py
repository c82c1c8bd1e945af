"""Column types of Parquet files. Spark reads all files of a table with one schema."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import InvalidUriError, StoreUnreachableError
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.content_file import ContentReader
from sparklake.verbs.base.content import ObjectContent

ColumnTypes = Mapping[str, str]
"""Spark's type names by lower-case column name; "" is an incomparable type."""

_FOOTER_BYTES = 64 * 1024


def column_types(schema: pa.Schema) -> ColumnTypes:
    return {each.name.lower(): _kind(each.type) for each in schema}


def find_file_types(file: ObjectInfo, ref: str) -> ColumnTypes | None:
    """Return the types in a file's footer, or None unless it is readable Parquet."""
    raw = ContentReader(ObjectContent(file, ref), file.path)
    try:
        buffer = io.BufferedReader(raw, _FOOTER_BYTES)
        with pq.ParquetFile(buffer, coerce_int96_timestamp_unit="us") as parquet:
            return column_types(parquet.schema_arrow)
    except StoreUnreachableError:
        raise
    except (pa.ArrowException, OSError, InvalidUriError):
        # Readers of the table get the error of this file.
        return None


def differing_types(one: ColumnTypes, other: ColumnTypes) -> list[str]:
    """Return texts such as "price (double, string)" for columns of differing types."""
    common = (name for name in one if one[name] and other.get(name))
    return [f"{name} ({one[name]}, {other[name]})" for name in common if one[name] != other[name]]


_SPARK_NAMES = {
    **dict.fromkeys((pa.string(), pa.large_string()), "string"),
    **dict.fromkeys((pa.binary(), pa.large_binary()), "binary"),
    **dict.fromkeys((pa.date32(), pa.date64()), "date"),
    **dict.fromkeys((pa.int16(), pa.uint8()), "smallint"),
    **dict.fromkeys((pa.int32(), pa.uint16()), "int"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "bigint"),
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.float32(): "float",
    pa.float64(): "double",
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
    if not types.is_nested(kind):
        return _SPARK_NAMES.get(kind, "")
    if types.is_map(kind):
        name, inner = "map", [_kind(kind.key_type), _kind(kind.item_type)]
    elif types.is_struct(kind):
        fields = ((each.name, _kind(each.type)) for each in kind)
        name, inner = "struct", [each and f"{field}:{each}" for field, each in fields]
    else:
        name, inner = "array", [_kind(kind.value_type)]
    return f"{name}<{','.join(inner)}>" if all(inner) else ""
