"""The case of column names, by Spark's rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NameRule = Callable[[str], str]
"""A function with equal results for the names of one column."""


def name_rule(spark: SparkSession) -> NameRule:
    return str if spark.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def spelled(name: str, names: Iterable[str], rule: NameRule) -> str:
    """Return the name of a table's column as the table spells it. Raises InvalidInputError."""
    listed = list(names)
    match = next((each for each in listed if rule(each) == rule(name)), None)
    if match is None:
        raise InvalidInputError(f"the table has no column {name!r}: choose from {listed}")
    return match
