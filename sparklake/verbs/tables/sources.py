"""The formats of a lake for Spark's own reader and writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparklake.errors import MissingDependencyError
from sparklake.rows.diffs import DIFF_DDL
from sparklake.rows.objects import OBJECT_DDL
from sparklake.verbs.history.log_rows import LOG_DDL
from sparklake.verbs.tables.scan import plan_scan
from sparklake.verbs.tables.source_write import begin_write, stage_write
from sparklake.verbs.tables.stream_reads import head_id, plan_new_files
from sparklake.verbs.tables.written import abandon_write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {"sparklake.objects": OBJECT_DDL, "sparklake.diff": DIFF_DDL, "sparklake.log": LOG_DDL}

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_formats(spark: SparkSession, open_lake: Callable[..., Any]) -> None:
    try:
        from sparklake.frames.datasources import register_sources
        from sparklake.frames.lakefs_source import LakefsSource, TableVerbs
    except ImportError as error:
        raise MissingDependencyError(
            "Python data sources require Spark 4: use repo.objects(ref).to_df(), "
            "repo.diff(left, right).to_df(), repo.log(ref).to_df() and lake.read, which have the "
            "same rows"
        ) from error
    register_sources(spark, open_lake, FORMATS)
    attributes = {
        "opener": staticmethod(open_lake),
        "verbs": TableVerbs(
            scan=plan_scan,
            begin_write=begin_write,
            stage_write=stage_write,
            abandon_write=abandon_write,
            head_id=head_id,
            new_files=plan_new_files,
        ),
        "pushes_filters": spark.conf.get(_PUSHDOWN, "false") == "true",
    }
    spark.dataSource.register(type("LakefsSource", (LakefsSource,), attributes))
