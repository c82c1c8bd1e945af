"""Comparison of values as columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NumericType, StructField, StructType

from sparklake.frames.tables.column_names import NameRule
from sparklake.metadata.union.types import common_type
from sparklake.session import quoted


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


def violations(rows: DataFrame, constraint: str) -> DataFrame:
    """Return the rows for which a constraint is false or, as in Delta, null."""
    return rows.where(~F.coalesce(F.expr(constraint), F.lit(False)))


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
    """Return whether a type has all values and fields of another one."""
    kind = find_common_type(new, old)
    return kind is not None and kind.simpleString() == new.simpleString()


def find_common_type(one: DataType, other: DataType, rule: NameRule = str) -> DataType | None:
    """Return the type with all values and fields of both, or None without one."""
    kind = common_type(json.loads(one.json()), json.loads(other.json()), rule)
    if kind is None:
        return None
    wrapped = {"name": "v", "type": kind, "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [wrapped]})["v"].dataType


def converted(value: Column, own: DataType, new: DataType, rule: NameRule = str) -> Column:
    """Convert a value to a wider type, with fields by name."""
    if isinstance(own, StructType) and isinstance(new, StructType):
        fields = {rule(each.name): each for each in own.fields}
        parts = (
            converted(value.getField(match.name), match.dataType, each.dataType, rule)
            if (match := fields.get(rule(each.name)))
            else F.lit(None).cast(each.dataType)
            for each in new.fields
        )
        named = (part.alias(each.name) for part, each in zip(parts, new.fields, strict=True))
        return F.when(value.isNotNull(), F.struct(*named))
    if isinstance(own, ArrayType) and isinstance(new, ArrayType):
        return F.transform(
            value, lambda each: converted(each, own.elementType, new.elementType, rule)
        )
    if isinstance(own, MapType) and isinstance(new, MapType):
        return F.transform_values(
            value, lambda _, each: converted(each, own.valueType, new.valueType, rule)
        ).cast(new)
    return value.cast(new)


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
