"""Presigned URLs: anyone who has one may read one object until it expires."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol, runtime_checkable

from sparklake.errors import InvalidInputError
from sparklake.graveler.ports import ObjectStore

_MAX_LIFETIME = timedelta(days=7)
"""The limit of S3, of Google, and of Azure's keys for identities."""


@runtime_checkable
class SignsUrls(Protocol):
    """A store whose server accepts presigned URLs."""

    def signed_url(self, key: str, lifetime: timedelta) -> str:
        """Return a URL to GET an object. Sends no request for the object."""


def signed_url(store: ObjectStore, key: str, lifetime: timedelta) -> str:
    """Return a presigned URL of an object.

    Raises:
        InvalidInputError: The store has no URLs, or the lifetime is not within 1 second and 7 days.
    """
    if not timedelta(seconds=1) <= lifetime <= _MAX_LIFETIME:
        raise InvalidInputError(
            f"a presigned URL cannot expire after {lifetime}: choose 1 second to 7 days"
        )
    if not isinstance(store, SignsUrls):
        raise InvalidInputError(
            f"{store.uri} has no presigned URLs, because no server reads its objects: read the "
            "object with `sparklake cat`, or through lakefs:// paths"
        )
    return store.signed_url(key, lifetime)
