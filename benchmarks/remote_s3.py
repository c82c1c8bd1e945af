"""S3 over obstore: the remote store's reference for contract tests and comparisons."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import obstore
from obstore import store as obstore_stores

from sparklake.stores.objects.buckets import Entry, environment
from sparklake.stores.objects.remote import RemoteStore, listed_entries


@dataclass(frozen=True, slots=True)
class S3Bucket:
    """A bucket at the endpoint of an `s3_environment`."""

    name: str

    @property
    def uri(self) -> str:
        return f"s3://{self.name}"

    @property
    def endpoint(self) -> str:
        return os.environ["AWS_ENDPOINT_URL"]

    @property
    def advice(self) -> str:
        return "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

    def settings(self) -> Hashable:
        return environment("AWS_")

    def credentials(self) -> Callable[[], Any]:
        key = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        return lambda: {"access_key_id": key[0], "secret_access_key": key[1], "expires_at": None}

    def connect(self, **options: Any) -> Any:
        return obstore_stores.S3Store(
            self.name,
            endpoint=self.endpoint,
            region=os.environ["AWS_DEFAULT_REGION"],
            virtual_hosted_style_request=False,
            **options,
        )

    def entries(self, client: Any, prefix: str, *, level: bool) -> Iterator[Entry]:
        return listed_entries(client, prefix, level=level)

    def check_key(self, key: str) -> None:
        """Accept every key."""

    def sign(self, client: Any, key: str, lifetime: timedelta) -> str:
        return obstore.sign(client, "GET", key, lifetime)


def open_remote_s3(root: str) -> RemoteStore:
    """Return the store at an `s3://` root, with obstore instead of boto3."""
    bucket, _, prefix = root.partition("://")[2].partition("/")
    return RemoteStore(S3Bucket(bucket), prefix)
