"""What Spark's own writers do for a write: they put its files into a fresh place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.errors import MissingFileError
from sparklake.verbs.context import Context
from sparklake.verbs.requests import WriteRequest
from sparklake.verbs.table_paths import spark_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUCCESS = "_SUCCESS"

_COMMITTER = {
    # With the other version a task that fails, or comes second, may leave files among the others.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}


def save_rows(context: Context, rows: DataFrame, request: WriteRequest, place: str) -> None:
    """Writes rows below a fresh place of the storage namespace; all of them, or it raises."""
    save(rows, request, spark_uri(f"{context.info.storage_namespace}/{place}"))
    if context.store.find(f"{place}/{SUCCESS}") is None:
        raise MissingFileError(
            f"Spark has written to {context.info.storage_namespace}/{place}, and there is no "
            f"{SUCCESS} there: check that driver and executors see the same storage"
        )


def save(rows: DataFrame, request: WriteRequest, uri: str) -> None:
    """Writes rows as files below a URI where nothing is yet."""
    writer = rows.write.format(request.format).options(**{**request.options, **_COMMITTER})
    if request.partition_by:
        writer = writer.partitionBy(*request.partition_by)
    writer.save(uri)
