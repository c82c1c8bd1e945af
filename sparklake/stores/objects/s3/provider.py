"""URIs of buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.stores.objects.buckets import split_bucket_uri
from sparklake.stores.objects.providers import Rewrite, StoreProvider

if TYPE_CHECKING:
    from sparklake.stores.objects.s3.destination import S3Destination
    from sparklake.stores.objects.s3.store import S3Store

_BUCKET = "[A-Za-z0-9._-]{3,255}"


def _split(uri: str) -> tuple[str, str]:
    return split_bucket_uri(uri, "s3", _BUCKET, "An S3", "the environment, a profile or a role")


def _open(root: str) -> S3Store:
    # Lazy import: boto3 is optional, and its import takes most of a second.
    from sparklake.stores.objects.s3.store import S3Store

    bucket, _, prefix = root.partition("://")[2].partition("/")
    return S3Store(bucket, prefix)


def _open_destination(root: str) -> S3Destination:
    from sparklake.stores.objects.s3.destination import S3Destination

    return S3Destination(_open(root))


S3 = StoreProvider(
    schemes=("s3", "s3a"),
    forms="s3://bucket/prefix or s3a://bucket/prefix",
    split=_split,
    open=_open,
    open_destination=_open_destination,
    canonical="s3://",
    to_canonical=Rewrite("^s3a://", "s3://"),
    to_spark=Rewrite("^s3://", "s3a://"),
    plain_place=f"s3a?://{_BUCKET}",
    hadoop_client="S3A (hadoop-aws)",
    spark_may_handle=True,
    endpoint_variables=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
)
