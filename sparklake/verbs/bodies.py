"""The content of objects."""

from __future__ import annotations

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.stores.objects import open_object
from sparklake.udfs.objects import ObjectInfo


def read_body(found: ObjectInfo, ref: str) -> bytes:
    """Returns the bytes of an object that a ref holds.

    Raises MissingFileError or CorruptFileError when the file at its address is gone or has another
    size than it had when it was added.
    """
    store, key = open_object(found.address)
    try:
        body = store.get(key)
    except MissingFileError as error:
        raise MissingFileError(
            f"{found.path!r} at {ref!r} is gone from {found.address}: it was moved or deleted "
            "outside of the lake; restore it there"
        ) from error
    if len(body) != found.size:
        raise CorruptFileError(
            f"{found.path!r} at {ref!r} has {len(body)} bytes at {found.address}, not "
            f"{found.size}: it was overwritten outside of the lake; restore what was there"
        )
    return body
