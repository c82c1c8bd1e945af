"""Object stores: a local directory, or a bucket of any S3 endpoint."""

from __future__ import annotations

from sparklake.stores.objects.registry import (
    check_object_uri,
    normalise_object_uri,
    normalise_store_uri,
    open_destination,
    open_object,
    open_store,
)

__all__ = [
    "check_object_uri",
    "normalise_object_uri",
    "normalise_store_uri",
    "open_destination",
    "open_object",
    "open_store",
]
