"""Comparison of values as columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NumericType, StructField, StructType

from sparklake.session import quoted

_WIDER = {*combinations(("byte", "short", "integer", "long"), 2), ("float", "double")}


def column(name: str) -> Column:
    """Return a column by its literal name."""
    return F.col(quoted(name))


def json_rows(rows: DataFrame, limit: int) -> list[Mapping[str, Any]]:
    """Return the first rows as JSON values. Repeated names of columns get numbers."""
    names: list[str] = []
    for each in rows.columns:
        names.append(f"{each}_{names.count(each) + 1}" if each in names else each)
    if not names:
        return []
    packed = F.to_json(F.struct(*map(column, names)), {"ignoreNullFields": "false"})
    texts = rows.toDF(*names).select(packed.alias("row")).take(limit)
    return [json.loads(each["row"]) for each in texts]


def row_struct(schema: StructType) -> Column:
    return F.struct(*map(column, schema.names))


def no_row(schema: StructType) -> Column:
    fields = [StructField(each.name, each.dataType, True) for each in schema.fields]
    return F.lit(None).cast(StructType(fields))


def comparable(value: Column, own: DataType, other: DataType) -> Column:
    """Convert a value for null-safe comparison with another type.

    -0.0 equals 0.0, and NaN equals NaN. Maps are equal if their entries are. Variants are compared
    as JSON, strings by their bytes, and values of different types as text.
    """
    if not fits(own, other):
        return value.cast("string")
    return value if isinstance(own, NumericType) else _exact(value, own)


def fits(one: DataType, other: DataType) -> bool:
    is_number = isinstance(one, NumericType) and isinstance(other, NumericType)
    return is_number or one.simpleString() == other.simpleString()


def is_wider(new: DataType, old: DataType) -> bool:
    """Return whether a numeric type has all values of a shorter one of its kind."""
    return (old.typeName(), new.typeName()) in _WIDER


def holds_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString()


def _exact(value: Column, kind: DataType) -> Column:
    name = kind.simpleString()
    if not any(each in name for each in ("map<", "variant", "collate")):
        return value
    if isinstance(kind, MapType):
        entries = StructType(
            [StructField("key", kind.keyType), StructField("value", kind.valueType)]
        )
        return F.array_sort(_exact(F.map_entries(value), ArrayType(entries)))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda each: _exact(each, kind.elementType))
    if isinstance(kind, StructType):
        fields = (
            _exact(value.getField(each.name), each.dataType).alias(each.name)
            for each in kind.fields
        )
        return F.when(value.isNotNull(), F.struct(*fields))
    return F.to_json(value) if name == "variant" else value.cast("binary")
