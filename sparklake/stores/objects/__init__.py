"""Object stores: a local directory, or a bucket of S3, Azure or Google."""

from __future__ import annotations

from sparklake.stores.objects.local.provider import find_local_path, local_uri
from sparklake.stores.objects.registry import (
    describe_store,
    normalise_object_uri,
    normalise_store_uri,
    open_destination,
    open_object,
    open_store,
    split_uri,
)
from sparklake.stores.objects.waits import use_timeouts

__all__ = [
    "describe_store",
    "find_local_path",
    "local_uri",
    "normalise_object_uri",
    "normalise_store_uri",
    "open_destination",
    "open_object",
    "open_store",
    "split_uri",
    "use_timeouts",
]
