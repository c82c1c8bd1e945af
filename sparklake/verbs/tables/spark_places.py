"""User-supplied URIs for Spark to read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.frames.tables.spark_sources import lacks_client
from sparklake.stores.objects.addresses import may_be_handled, spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOWHERE = "_sparklake/no/such/path"


def handled_uri(spark: SparkSession, uri: str) -> str:
    """Return a URI for Spark, with `s3://` if a read shows that the session handles it."""
    if spark_uri(uri) == uri or not may_be_handled(uri):
        return spark_uri(uri)
    bucket = "/".join(uri.split("/")[:3])
    try:
        # The path has no objects to list. Connect reads when the schema is requested.
        _ = spark.read.schema("value string").text(f"{bucket}/{_NOWHERE}").schema
    except Exception as error:  # noqa: BLE001  (of Spark or of py4j, depending on the version)
        return spark_uri(uri) if lacks_client(error) else uri
    return uri
