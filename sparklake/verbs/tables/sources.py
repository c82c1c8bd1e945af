"""The formats of a lake for Spark's own reader and writer, and their writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparklake.errors import MissingDependencyError, NotFoundError
from sparklake.rows.diffs import DIFF_DDL
from sparklake.rows.objects import OBJECT_DDL
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.history.log_rows import LOG_DDL
from sparklake.verbs.tables.parquet_view import PARQUET
from sparklake.verbs.tables.scan import plan_scan
from sparklake.verbs.tables.stream_reads import head_id, plan_new_files
from sparklake.verbs.tables.write import check_fits, open_table_to_write, stage_files
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import abandon_write, register_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from sparklake.frames.lakefs_source import StartedWrite

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


def begin_write(
    context: Context,
    branch: str,
    path: str,
    schema: StructType,
    partition_by: tuple[str, ...],
    *,
    overwrite: bool,
) -> StartedWrite:
    """Register a write of Parquet files, after the checks of `Branch.write`."""
    from sparklake.frames.lakefs_source import StartedWrite

    request = WriteRequest(
        branch=branch,
        path=path,
        format=PARQUET,
        mode=WriteMode.OVERWRITE if overwrite else WriteMode.APPEND,
        partition_by=partition_by,
    )
    check_fits(lambda: schema, request, open_table_to_write(context, request))
    check_namespace(context.store)
    write = register_write(context, branch)
    place = f"{context.info.storage_namespace}/{write.place}"
    return StartedWrite(write.id, place, partition_by, request)


def stage_write(context: Context, source: StartedWrite, files: pa.Table) -> TableWrite:
    """Stage the files of all tasks at once. After an abandoned write, nothing is staged."""
    write = context.refs.writes.find(source.id)
    if write is None:
        raise NotFoundError(f"the write {source.id} is no longer registered: write again")
    return stage_files(context, source.request, write, files)
