"""The format of a lake for Spark's own stream reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparklake.errors import MissingDependencyError
from sparklake.verbs.tables.stream_reads import head_id, plan_new_files, plan_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_format(spark: SparkSession, open_lake: Callable[..., Any]) -> None:
    try:
        from sparklake.frames.lakefs_source import LakefsSource, TableVerbs
    except ImportError as error:
        raise MissingDependencyError(
            "the format lakefs requires Spark 4: use repo.diff_table(LAST, NOW, path)"
        ) from error
    attributes = {
        "opener": staticmethod(open_lake),
        "verbs": TableVerbs(scan=plan_scan, head_id=head_id, new_files=plan_new_files),
    }
    spark.dataSource.register(type("LakefsSource", (LakefsSource,), attributes))
