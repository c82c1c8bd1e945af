"""Delta schemas of plain Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READ_SETTINGS = (
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
    "spark.sql.parquet.mergeSchema",
)
"""The session settings that affect the schema of Parquet files."""

_FEATURES = {"timestamp_ntz": "timestampNtz"}
_PLAIN = {
    *("string", "binary", "boolean", "byte", "short", "integer", "long", "float", "double"),
    *("decimal", "date", "timestamp", "array", "map", "struct"),
}


def read_settings(spark: SparkSession) -> list[str | None]:
    return [spark.conf.get(each, None) for each in READ_SETTINGS]


def type_names(schema: StructType) -> dict[str, str]:
    """Return Spark's type names by lower-case column name, "" for user-defined types."""
    return {
        each.name.lower(): each.dataType.simpleString().replace("timestamp_ntz", "timestamp")
        if {kind.typeName() for kind in _types(each.dataType)} <= _PLAIN | set(_FEATURES)
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


def nullable(schema: StructType) -> StructType:
    """Return a schema of files, where every value may be null."""
    names = ("nullable", "containsNull", "valueContainsNull")

    def relax(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, **{name: True for name in names if name in fields}}

    return StructType.fromJson(json.loads(schema.json(), object_hook=relax))
