"""Destinations of copies: plain directories and buckets outside of any repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.stores.exports.checking import ExpectedObject
from sparklake.stores.exports.local_destination import LocalDestination
from sparklake.stores.objects import open_store
from sparklake.stores.objects.local.store import LocalStore

if TYPE_CHECKING:
    from sparklake.stores.exports.checking import Destination

__all__ = ["ExpectedObject", "open_destination"]


def open_destination(uri: str) -> Destination:
    """Return the destination at a path or URI. It need not exist, and nothing is written."""
    store = open_store(uri)
    if isinstance(store, LocalStore):
        return LocalDestination(store.root)
    # Lazy import: boto3 is optional, and its import takes most of a second.
    from sparklake.stores.exports.s3_destination import S3Destination

    return S3Destination.at(uri)
