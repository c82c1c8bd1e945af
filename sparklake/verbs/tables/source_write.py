"""Writes of Python data sources: registered, written by tasks, and staged by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.errors import NotFoundError
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.tables.parquet_view import PARQUET
from sparklake.verbs.tables.version import table_prefix
from sparklake.verbs.tables.write import check_fits, open_table_to_write, stage_files
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import register_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from sparklake.frames.lakefs_source import StartedWrite


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

    request = _request(branch, path, partition_by, overwrite=overwrite)
    check_fits(lambda: schema, request, open_table_to_write(context, request))
    check_namespace(context.store)
    write = register_write(context, branch)
    return StartedWrite(
        id=write.id,
        branch=branch,
        path=path,
        uri=f"{context.info.storage_namespace}/{write.place}",
        partition_by=partition_by,
        overwrite=overwrite,
    )


def stage_write(context: Context, source: StartedWrite, files: pa.Table) -> TableWrite:
    """Stage the files of all tasks at once. After an abandoned write, nothing is staged."""
    request = _request(source.branch, source.path, source.partition_by, overwrite=source.overwrite)
    write = context.refs.writes.find(source.id)
    if write is None:
        raise NotFoundError(f"the write {source.id} is no longer registered: write again")
    return stage_files(context, request, write, files)


def _request(
    branch: str, path: str, partition_by: tuple[str, ...], *, overwrite: bool
) -> WriteRequest:
    return WriteRequest(
        branch=branch,
        path=path,
        folder=table_prefix(path),
        format=PARQUET,
        mode=WriteMode.OVERWRITE if overwrite else WriteMode.APPEND,
        partition_by=partition_by,
        options={},
    )
