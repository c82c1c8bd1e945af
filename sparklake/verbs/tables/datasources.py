"""Formats by which Spark's own reader reads versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparklake.errors import MissingDependencyError
from sparklake.rows.objects import OBJECT_DDL
from sparklake.udfs.diffs.two_way import DIFF_DDL
from sparklake.verbs.history.log_rows import LOG_DDL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    "sparklake.objects": OBJECT_DDL,
    "sparklake.diff": DIFF_DDL,
    "sparklake.log": LOG_DDL,
}


def register_formats(spark: SparkSession, open_lake: Callable[..., Any]) -> None:
    """Register the formats in a session; raise MissingDependencyError before Spark 4."""
    try:
        from sparklake.frames.datasources import register_sources
    except ImportError as error:
        raise MissingDependencyError(
            "data sources in Python need Spark 4: use repo.objects(ref).to_df(), "
            "repo.diff(left, right).to_df() and repo.log(ref).to_df(), which have the same "
            "rows"
        ) from error
    register_sources(spark, open_lake, FORMATS)
