"""Rows of counts, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summed(parts: DataFrame, key: str, columns: Sequence[str]) -> DataFrame:
    """Returns a row for each key, with the sums of its columns."""
    from pyspark.sql import functions as F  # noqa: N812

    sums = [F.sum(name).alias(name) for name in columns]
    return parts.groupBy(key).agg(*sums).select(key, *columns)
