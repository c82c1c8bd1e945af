"""Sums of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklake.graveler.sums import MAX_SUM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summed(parts: DataFrame, key: str, columns: Sequence[str]) -> DataFrame:
    """Return a row per key with the sums of its columns, capped at 2^63 - 1."""
    from pyspark.sql import functions as F  # noqa: N812

    most = F.lit(MAX_SUM)
    # 38 digits are enough for the sum of any possible number of parts.
    exact = [F.sum(F.col(name).cast("decimal(19,0)")) for name in columns]
    sums = [
        F.least(total, most).cast("bigint").alias(name)
        for name, total in zip(columns, exact, strict=True)
    ]
    return parts.groupBy(key).agg(*sums).select(key, *columns)
