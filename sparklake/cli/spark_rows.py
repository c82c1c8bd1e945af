"""Input and output of commands through Spark, and its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from sparklake.cli.options import one_of, option
from sparklake.documents import Document
from sparklake.errors import InvalidInputError, MissingDependencyError
from sparklake.graveler.refs.names import suggestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.verbs.diffs.differences import Differences

# py4j puts the name of a call before Spark's message.
_NAMED_REASON = re.compile(r"\[[A-Z_.]+\] [^\n]*")

DIFF_TYPES = ("added", "removed", "changed", "conflict")

_FORMATS = ("parquet", "delta", "orc", "csv", "json")
"""Common formats. Spark may support others."""

complete_format = one_of(*_FORMATS)

RowsFormatOption = Annotated[
    str,
    option(
        "Read the rows in this Spark format.",
        "--format",
        metavar="FORMAT",
        autocompletion=complete_format,
    ),
]
ToOption = Annotated[
    str | None, option("Write all rows here as Parquet, with Spark.", "--to", metavar="URI")
]


def source_rows(
    uri: str, source_format: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    # Before Spark starts, which takes seconds.
    if source_format.lower() not in _FORMATS and (hint := suggestion(source_format, _FORMATS)):
        raise InvalidInputError(f"Spark has no format {source_format!r}{hint}")
    # Lazy import: only commands that use Spark need it.
    from sparklake.session import spark_session
    from sparklake.verbs.tables.spark_places import handled_uri

    spark = spark_session()
    with refused_by_spark(f"Spark cannot read {uri} as {source_format}"):
        reader = spark.read.format(source_format).options(**(options or {}))
        rows = reader.load(handled_uri(spark, uri))
        _ = rows.schema  # Spark Connect reports a missing path or format only now.
        return rows


def save_differences(diffs: Differences[Any], uri: str) -> Document:
    from sparklake.session import job_description
    from sparklake.verbs.tables.spark_places import handled_uri

    changes = diffs.to_df()
    spark = changes.sparkSession
    with job_description(spark, diffs.title), refused_by_spark(f"Spark cannot write to {uri}"):
        place = handled_uri(spark, uri)
        changes.write.parquet(place)
        counted = spark.read.parquet(place).groupBy("type").count().collect()
    counts = {row["type"]: row["count"] for row in counted}
    return {kind: counts.get(kind, 0) for kind in DIFF_TYPES}


@contextmanager
def refused_by_spark(failure: str) -> Iterator[None]:
    """Convert Spark's analysis errors and missing clients to sparklake's errors."""
    from pyspark.errors import AnalysisException

    from sparklake.frames.tables.spark_sources import lacks_client, lacks_source
    from sparklake.stores.objects.addresses import HADOOP_CLIENTS

    try:
        yield
    except Exception as error:
        if lacks_client(error):
            raise MissingDependencyError(
                f"{failure}: this Spark session has no client for that place. For a bucket, add "
                f"{HADOOP_CLIENTS} of Spark's Hadoop version to its jars"
            ) from error
        # Classic Spark reports an unknown format as an error of py4j.
        if not (isinstance(error, AnalysisException) or lacks_source(error)):
            raise
        text = str(error).strip()
        match = _NAMED_REASON.search(text)
        reason = match.group() if match else text.partition("\n")[0]
        raise InvalidInputError(f"{failure}: {reason}") from error
