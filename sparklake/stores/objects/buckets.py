"""What all stores in buckets share: their URIs, parallel writes and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sparklake.errors import InvalidUriError, MissingFileError, StoreUnreachableError
from sparklake.interrupts import Threads
from sparklake.stores.objects.key_checks import invalid_uri

_T = TypeVar("_T")

PUT_THREADS = 16


def split_bucket_uri(
    uri: str, scheme: str, bucket: str, service: str, instead: str
) -> tuple[str, str]:
    """Split a URI into the canonical URI of its bucket, whose name matches `bucket`, and the key.

    Credentials in it are rejected: `service` and `instead` are for the message.
    """
    _, separator, place = uri.partition("://")
    name, _, key = place.partition("/")
    if "@" in name:
        raise InvalidUriError(
            f"{service} URI may not contain credentials: remove them, and use {instead}."
        )
    if not separator or not re.fullmatch(bucket, name):
        raise invalid_uri(uri, f"does not name a bucket: write {scheme}://bucket/prefix")
    return f"{scheme}://{name}", key


def put_all(
    items: Mapping[str, _T], check: Callable[[str], object], put: Callable[[str, _T], bool]
) -> Sequence[str]:
    """Write items in several threads, after a check of all keys; return the written keys."""
    for key in items:
        check(key)
    with Threads(min(PUT_THREADS, len(items)) or 1, "sparklake-put") as threads:
        writing = {key: threads.submit(put, key, item) for key, item in items.items()}
        return [key for key, future in writing.items() if future.result()]


def no_object(address: str) -> MissingFileError:
    return MissingFileError(
        f"The object {address} does not exist: it was moved or deleted outside the lake; "
        "restore it from a backup or an older version."
    )


def no_bucket(address: str) -> StoreUnreachableError:
    return StoreUnreachableError.of_missing(
        f"The bucket of {address} does not exist: create it, or correct the name or the endpoint."
    )
