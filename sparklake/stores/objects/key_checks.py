"""Validation of keys, prefixes and URIs in object stores."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import InvalidKeyError, InvalidUriError
from sparklake.uri import is_utf8


def check_key(key: str) -> None:
    """Raise InvalidKeyError for an empty key, a non-UTF-8 one or one outside the root."""
    if not key:
        raise InvalidKeyError("The object key is empty: give the object a name.")
    _check(key, key.split("/"))


def invalid_uri(uri: str, reason: str) -> InvalidUriError:
    return InvalidUriError(f"{uri!r} {reason}.")


def prefixed_root(uri: str, bucket: str, prefix: str) -> str:
    """Return the canonical root of a prefix in a bucket. `uri` is for the error."""
    prefix = prefix.rstrip("/")
    if not prefix:
        return bucket
    try:
        check_key(prefix)
    except InvalidKeyError as error:
        raise invalid_uri(
            uri, "has a '.' or '..' part, or two slashes in a row: remove them"
        ) from error
    if "//" in prefix:
        raise invalid_uri(
            uri, "has two slashes in a row, which Spark would read as one: remove one"
        )
    return f"{bucket}/{prefix}"


def check_prefix(prefix: str) -> None:
    """Raise InvalidKeyError if no valid key has the prefix. Its last part may be partial."""
    _check(prefix, prefix.split("/")[:-1])


def _check(text: str, parts: Sequence[str]) -> None:
    if text.startswith("/"):
        raise _invalid(text, "starts with '/'; keys are relative to the store's root")
    # Stores treat dot parts differently: a file system resolves them, S3 keeps them.
    if ".." in parts or "." in parts:
        raise _invalid(text, "has a '.' or '..' part; remove it")
    if "\0" in text:
        raise _invalid(text, "has a NUL character; remove it")
    if not is_utf8(text):
        raise _invalid(text, "is not UTF-8; rename the object")


def _invalid(text: str, reason: str) -> InvalidKeyError:
    return InvalidKeyError(f"The object key {text!r} {reason}.")
