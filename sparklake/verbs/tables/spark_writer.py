"""Writes of table files by Spark's own writers, under a new prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sparklake._scratch import scratch_folder
from sparklake.config import BucketWrites
from sparklake.engine.spark import kept_rows
from sparklake.errors import LostResultError, MissingDependencyError, MissingFileError
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.session import is_connect_3
from sparklake.stores.objects import describe_store, local_uri, open_store
from sparklake.stores.objects.addresses import HADOOP_CLIENTS, spark_uri
from sparklake.udfs.tables import not_shared, upload_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.write_request import WriteMode, WriteRequest
from sparklake.verbs.tables.written import bytes_runner, file_shares, kept, visible_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUCCESS = "_SUCCESS"

_COMMITTER = {
    # With algorithm 2, a failed or repeated task may leave files among the others.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}
_NUMBERED = {"parquet", "orc", "json", "csv", "text", "avro", "xml"}
"""Formats with the partition number in the file names."""

_NUMBER = "_sparklake_partition"
_PART = r"part-(?P<number>[0-9]+)[-.]"


Check = Callable[[pa.ChunkedArray], None]
"""A check for missing files, from the names of all files of a write."""


def save_rows(context: Context, rows: DataFrame, request: WriteRequest, place: str) -> Check:
    """Write all rows under a new prefix of the storage namespace.

    The caller must pass the names of the files to the returned check before staging them.
    """
    namespace = context.info.storage_namespace
    check: Check = _unchecked
    if describe_store(namespace).is_local:
        with _observed(rows, request) as (observed, check):
            _save(observed, request, f"{namespace}/{place}", _COMMITTER)
    elif _has_spark_client(context):
        _save(rows, request, spark_uri(f"{namespace}/{place}"), _COMMITTER)
    else:
        _save_and_upload(context, rows, request, place)
    if context.store.find(f"{place}/{SUCCESS}") is None:
        raise MissingFileError(
            f"Spark has written to {namespace}/{place}, but {SUCCESS} is missing there: check "
            "that driver and executors see the same storage, and that the session uses "
            "Hadoop's or S3A's committers"
        )
    return check


def _unchecked(names: pa.ChunkedArray) -> None:
    """Accept all names: they were already checked, or all machines share the storage."""


def save_delta(rows: DataFrame, request: WriteRequest, uri: str) -> None:
    if request.mode in (WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS):
        # The request has taken the session's setting into account.
        how = "static" if request.mode is WriteMode.OVERWRITE else "dynamic"
        _save(rows, request, uri, {"partitionOverwriteMode": how}, "overwrite")
    else:
        # Spark Connect accepts only the short name of `errorifexists`.
        mode = "error" if request.mode is WriteMode.ERROR_IF_EXISTS else request.mode.value
        _save(rows, request, uri, {}, mode)


def check_native(context: Context) -> None:
    if not context.store.traits.is_local and not _has_spark_client(context):
        raise MissingDependencyError(
            "this Spark session lacks a client that writes Delta or Iceberg tables in buckets: "
            f"add {HADOOP_CLIENTS} of Spark's Hadoop version to its jars"
        )


def _save(
    rows: DataFrame,
    request: WriteRequest,
    uri: str,
    options: Mapping[str, str],
    mode: str = "error",
) -> None:
    writer = rows.write.format(request.format).options(**{**request.options, **options}).mode(mode)
    if request.partition_by:
        writer = writer.partitionBy(*request.partition_by)
    writer.save(uri)


def _has_spark_client(context: Context) -> bool:
    # Lazy import: the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import lacks_client

    setting = context.runners.bucket_writes
    if setting is not BucketWrites.AUTO:
        return setting is BucketWrites.HADOOP
    marker = spark_uri(f"{context.info.storage_namespace}/{NAMESPACE_MARKER_KEY}")
    reader = context.runners.session().read.format("text").schema("value string")
    try:
        # Analysis looks up the file: at once, or in Connect when the schema is requested.
        _ = reader.load(marker).schema
    except Exception as error:
        if lacks_client(error):
            return False
        raise
    return True


def _save_and_upload(context: Context, rows: DataFrame, request: WriteRequest, place: str) -> None:
    with scratch_folder() as scratch:
        with _observed(rows, request) as (observed, check):
            _save(observed, request, local_uri(f"{scratch}/table"), _COMMITTER)
        with kept(visible_files(open_store(str(scratch)), "table/")) as files:
            check(files["name"])
            size = int(pc.sum(files["size"]).as_py() or 0)
            runner = bytes_runner(context, request.branch, size)
            upload = partial(upload_body, context.workspace, f"{scratch}/table", place)
            uploaded = sum(each.num_rows for each in runner.collect(upload, file_shares(files)))
        if uploaded != files.num_rows:
            raise LostResultError(
                f"nothing was staged: {files.num_rows - uploaded} files were not uploaded. "
                "Write again"
            )


@contextmanager
def _observed(rows: DataFrame, request: WriteRequest) -> Iterator[tuple[DataFrame, Check]]:
    """Yield rows to write, and a check for missing files.

    Without a shared disk, Spark's committer sees only the files on the driver's disk. So the
    numbers of the partitions with rows are observed during the write, and must occur among the file
    names.
    """
    if request.format not in _NUMBERED:
        yield rows, _unchecked
        return
    from pyspark.sql import Observation
    from pyspark.sql.functions import col, collect_set, concat_ws, spark_partition_id

    if is_connect_3():
        # Connect 3 supports no observation, so the numbers are queried beforehand.
        with kept_rows(rows):
            numbers = rows.select(spark_partition_id().alias(_NUMBER)).distinct().collect()
            yield rows, partial(_check, lambda: {each[_NUMBER] for each in numbers})
        return
    observation, number = Observation(), _NUMBER
    while number in {each.lower() for each in rows.columns}:
        number += "_"
    # A column, because an observation rejects nondeterministic expressions.
    numbered = rows.withColumn(number, spark_partition_id())
    # One text, because Spark 3.5 returns no arrays from an observation.
    text = concat_ws(",", collect_set(col(number).cast("string"))).alias(number)
    observed = numbered.observe(observation, text).drop(number)
    yield (
        observed,
        partial(_check, lambda: set(map(int, filter(None, observation.get[number].split(","))))),
    )


def _check(partitions: Callable[[], set[int]], names: pa.ChunkedArray) -> None:
    numbers = pc.struct_field(pc.extract_regex(names, _PART), "number")
    missing = partitions() - set(pc.unique(pc.cast(numbers, pa.int64())).to_pylist())
    if missing:
        raise not_shared(f"the files of {len(missing)} partitions are missing")
