"""Delta schemas of plain Parquet files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from sparklake.frames.tables.partitions import inferred_types
from sparklake.session import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_SETTINGS = (
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.mergeSchema",
)
"""The session settings that affect the schema of Parquet files."""

_FEATURES = {"timestamp_ntz": "timestampNtz"}
_PLAIN = {
    *("string", "binary", "boolean", "byte", "short", "integer", "long", "float", "double"),
    *("decimal", "date", "timestamp", "array", "map", "struct"),
}


def read_settings(spark: SparkSession) -> list[str | None]:
    names = inferred_types(spark)
    types = None if names is None else str(sorted(names.items()))
    return [*(spark.conf.get(each, None) for each in READ_SETTINGS), types]


def type_names(schema: StructType) -> dict[str, str]:
    """Return Spark's type names by lower-case column name, "" for user-defined types."""
    known = {*_PLAIN, *_FEATURES, "time", "void"}
    return {
        # Parquet stores no precision of a time.
        each.name.lower(): re.sub(r"\btime\(\d\)", "time", each.dataType.simpleString())
        if {kind.typeName() for kind in _types(each.dataType)} <= known
        else ""
        for each in schema.fields
    }


def reader_features(schema: StructType) -> list[str] | None:
    """Return a schema's Delta features; None for unsupported types or ambiguous names."""
    kinds = {each.typeName() for each in _types(schema)}
    names = [name.lower() for name in schema.names]
    if len(set(names)) < len(names) or kinds - _PLAIN - set(_FEATURES):
        return None
    return sorted(_FEATURES[kind] for kind in kinds & set(_FEATURES))


def _types(kind: DataType) -> Iterator[DataType]:
    yield kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _types(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _types(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _types(kind.keyType)
        yield from _types(kind.valueType)


def typed_nulls(rows: DataFrame, stored: StructType) -> DataFrame:
    """Give columns and fields of only nulls (void) the stored types."""
    columns = []
    for each in rows.schema.fields:
        kind = _with_types(StructType([each]), stored).fields[0].dataType
        cast = F.col(quoted(each.name)).cast(kind).alias(each.name)
        columns.append(F.col(quoted(each.name)) if kind == each.dataType else cast)
    return rows.select(*columns)


def void_columns(schema: StructType) -> list[str]:
    return [
        field.name
        for field in schema.fields
        if any(isinstance(each, NullType) for each in _types(field.dataType))
    ]


def _with_types(own: Any, stored: DataType | None) -> Any:
    """Return a type with stored types in place of voids. Spark casts no keys of maps."""
    if isinstance(own, NullType):
        return own if stored is None else stored
    if isinstance(own, StructType) and isinstance(stored, StructType):
        kinds = {each.name.lower(): each.dataType for each in stored.fields}
        fields = ((each, kinds.get(each.name.lower())) for each in own.fields)
        return StructType(
            [
                StructField(each.name, _with_types(each.dataType, kind), True, each.metadata)
                for each, kind in fields
            ]
        )
    if isinstance(own, ArrayType) and isinstance(stored, ArrayType):
        return ArrayType(_with_types(own.elementType, stored.elementType))
    if isinstance(own, MapType) and isinstance(stored, MapType):
        return MapType(own.keyType, _with_types(own.valueType, stored.valueType))
    return own


def nullable(schema: StructType) -> StructType:
    """Return a schema of files, where every value may be null."""
    names = ("nullable", "containsNull", "valueContainsNull")

    def relax(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, **{name: True for name in names if name in fields}}

    return StructType.fromJson(json.loads(schema.json(), object_hook=relax))
