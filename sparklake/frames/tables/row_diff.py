"""Differing rows of two tables with a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sparklake.errors import InvalidInputError
from sparklake.frames.tables.row_values import (
    column,
    comparable,
    fits,
    holds_map,
    no_row,
    row_struct,
)

CHANGE, CHANGED_COLUMNS, LEFT, RIGHT = "change", "changed_columns", "left", "right"
_OWN = (CHANGE, CHANGED_COLUMNS, LEFT, RIGHT)

DUPLICATE = "several rows of one side have the key"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A differing column of two tables. The type of a missing column is None."""

    column: str
    left: str | None
    right: str | None

    @property
    def change(self) -> str:
        if self.left is None:
            return "added"
        return "removed" if self.right is None else "changed"


def schema_changes(left: StructType, right: StructType) -> tuple[SchemaChange, ...]:
    """Return the differing columns of two schemas, ignoring nullability."""
    types = [{each.name: each.dataType.simpleString() for each in side} for side in (left, right)]
    names = dict.fromkeys([*left.names, *right.names])
    changes = (SchemaChange(name, *(each.get(name) for each in types)) for name in names)
    return tuple(each for each in changes if each.left != each.right)


def selected(schema: StructType, key: Sequence[str], columns: Sequence[str] | None) -> StructType:
    """Return the key columns of a schema and the columns to compare, by default all."""
    names = schema.names if columns is None else [*key, *columns]
    return StructType([each for each in schema.fields if each.name in names])


def check_columns(
    left: StructType, right: StructType, key: Sequence[str], columns: Sequence[str] | None
) -> None:
    both = [name for name in left.names if name in right.names]
    for name in key:
        if name not in both:
            raise InvalidInputError(
                f"the tables do not both have a column {name!r}; common columns: {both}"
            )
        if name in _OWN:
            raise InvalidInputError(f"a key column cannot have the name {name!r}: rename it first")
        if any(holds_map(each[name].dataType) for each in (left, right)):
            raise InvalidInputError(f"{name!r} contains a map, which cannot be part of a key")
    for name in columns or ():
        if name not in {*left.names, *right.names}:
            raise InvalidInputError(f"neither table has a column {name!r}")
    if not key or len(set(key)) < len(key):
        raise InvalidInputError("list each key column once")


def row_diff(left: DataFrame, right: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the added, removed or changed rows from left to right.

    Null keys are equal. A column missing on one side is null there. A duplicate key fails the job.
    """
    one, other = left.schema, right.schema
    keyed = [
        left.select(
            *_keys(one, other, key), row_struct(one).alias(LEFT), no_row(other).alias(RIGHT)
        ),
        right.select(
            *_keys(other, one, key), no_row(one).alias(LEFT), row_struct(other).alias(RIGHT)
        ),
    ]
    inner = [_inner(at) for at in range(len(key))]
    grouped = keyed[0].unionByName(keyed[1]).groupBy(*inner)
    sides = grouped.agg(
        F.count(LEFT).alias("lefts"),
        F.count(RIGHT).alias("rights"),
        F.first(LEFT, ignorenulls=True).alias(LEFT),
        F.first(RIGHT, ignorenulls=True).alias(RIGHT),
    )
    columns = F.when(F.col(CHANGE) == "changed", F.col(CHANGED_COLUMNS)).alias(CHANGED_COLUMNS)
    key_columns = [F.col(at).alias(name) for at, name in zip(inner, key, strict=True)]
    return (
        sides.withColumn(CHANGED_COLUMNS, _changed_columns(one, other))
        .withColumn(CHANGE, _change(F.to_json(F.struct(*key_columns))))
        .where(F.col(CHANGE).isNotNull())
        .select(CHANGE, *key_columns, columns, LEFT, RIGHT)
    )


def _change(key: Column) -> Column:
    repeated = F.raise_error(F.concat(F.lit(f"{DUPLICATE} "), key)).cast("string")
    return (
        F.when((F.col("lefts") > 1) | (F.col("rights") > 1), repeated)
        .when(F.col("lefts") == 0, "added")
        .when(F.col("rights") == 0, "removed")
        .when(F.size(CHANGED_COLUMNS) > 0, "changed")
    )


def _changed_columns(left: StructType, right: StructType) -> Column:
    names = dict.fromkeys([*left.names, *right.names])
    marks = [F.when(~_same(left, right, name), F.lit(name)) for name in names]
    return F.filter(F.array(*marks), lambda each: each.isNotNull())


def _same(left: StructType, right: StructType, name: str) -> Column:
    if name not in right.names:
        return F.col(LEFT).getField(name).isNull()
    if name not in left.names:
        return F.col(RIGHT).getField(name).isNull()
    kinds = left[name].dataType, right[name].dataType
    sides = (F.col(side).getField(name) for side in (LEFT, RIGHT))
    one, other = (
        comparable(each, *pair) for each, pair in zip(sides, (kinds, kinds[::-1]), strict=True)
    )
    return one.eqNullSafe(other)


def _keys(schema: StructType, other: StructType, key: Sequence[str]) -> list[Column]:
    columns = []
    for at, name in enumerate(key):
        value = column(name)
        is_same = fits(schema[name].dataType, other[name].dataType)
        columns.append((value if is_same else value.cast("string")).alias(_inner(at)))
    return columns


def _inner(at: int) -> str:
    return f"key {at}"
