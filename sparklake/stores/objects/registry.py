"""Object stores by path or URI.

One rule for unusual names: **a URI is verbatim**. Nothing is percent-encoded or decoded, and '?'
and '#' are ordinary characters, so the rest of a `file://` URI is the exact path. Hadoop's `Path`
and the AWS tools do the same, so one string means the same place to sparklake, to Spark and to a
shell.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.errors import InvalidKeyError, InvalidUriError
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.store import LocalStore
from sparklake.uri import is_utf8

if TYPE_CHECKING:
    from sparklake.graveler.ports import ObjectStore
    from sparklake.stores.objects.destinations import Destination
    from sparklake.stores.objects.s3.store import S3Store

SUPPORTED = "a path, file:///path, s3://bucket/prefix or s3a://bucket/prefix"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}")
_S3 = ("s3", "s3a")
_FILES = ("file", "local")
"""The schemes of local files. lakeFS writes `local://`."""


def normalise_store_uri(uri_or_path: str) -> str:
    """Return the canonical URI of a root: `file:///path` or `s3://bucket/prefix`.

    Paths become absolute, and `~/` is the home directory. Symbolic links are not resolved.
    """
    if not _is_s3(uri_or_path):
        path = _local_path(uri_or_path)
        if path == "/":
            raise _invalid(uri_or_path, "is the root of the file system: choose a directory in it")
        return f"file://{path}"
    bucket, prefix = _bucket_and_rest(uri_or_path)
    prefix = prefix.rstrip("/")
    if not prefix:
        return f"s3://{bucket}"
    _check_prefix(uri_or_path, prefix)
    return f"s3://{bucket}/{prefix}"


def open_store(uri: str) -> ObjectStore:
    """Return the store at a path or URI. Nothing is read, and it need not exist yet."""
    canonical = normalise_store_uri(uri)
    if not _is_s3(canonical):
        return LocalStore(Path(canonical.removeprefix("file://")))
    return _s3_store(*_bucket_and_rest(canonical))


def open_object(uri: str) -> tuple[ObjectStore, str]:
    """Return the store and the key of an object at any address, for reads."""
    if not _is_s3(uri):
        return LocalStore(Path("/")), _local_path(uri).removeprefix("/")
    bucket, key = _bucket_and_rest(uri)
    return _s3_store(bucket, ""), key


def open_destination(uri: str) -> Destination:
    """Return the destination at a path or URI. It need not exist, and nothing is written."""
    canonical = normalise_store_uri(uri)
    # Lazy imports: most commands need neither, and boto3's import takes most of a second.
    if not _is_s3(canonical):
        from sparklake.stores.objects.local.destination import LocalDestination

        return LocalDestination(Path(canonical.removeprefix("file://")))
    from sparklake.stores.objects.s3.destination import S3Destination

    return S3Destination(_s3_store(*_bucket_and_rest(canonical)))


def check_object_uri(uri: str) -> None:
    """Raise InvalidUriError for an invalid object address, without opening it."""
    key = _bucket_and_rest(uri)[1] if _is_s3(uri) else _local_path(uri).removeprefix("/")
    if not key:
        raise _invalid(uri, "has no object key: add one")


def normalise_object_uri(uri: str) -> str:
    """Return the canonical URI of an object; raise InvalidUriError for an invalid one."""
    check_object_uri(uri)
    if not _is_s3(uri):
        return f"file://{_local_path(uri)}"
    return "s3://{}/{}".format(*_bucket_and_rest(uri))


def _s3_store(bucket: str, prefix: str) -> S3Store:
    # Lazy import: boto3 is optional, and its import takes most of a second.
    from sparklake.stores.objects.s3.store import S3Store

    return S3Store(bucket, prefix)


def _is_s3(uri: str) -> bool:
    scheme = _SCHEME.match(uri)
    return scheme is not None and scheme[1].lower() in _S3


def _local_path(uri: str) -> str:
    _check_text(uri)
    scheme = _SCHEME.match(uri)
    if scheme is None:
        at_home = uri == "~" or uri.startswith("~/")
        return _absolute(os.path.expanduser(uri) if at_home else uri)  # noqa: PTH111
    if scheme[1].lower() not in _FILES:
        # The URI is omitted from the message, because it may contain credentials.
        raise InvalidUriError(
            f"{scheme[1]}:// is not supported as an object store: use {SUPPORTED}."
        )
    path = uri[len(scheme[1]) + 1 :]
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise _invalid(uri, f"contains the host {host!r}: write file:/// and the absolute path")
        path = f"/{rest}"
    return _absolute(path)


def _absolute(path: str) -> str:
    # POSIX allows a special meaning for two leading slashes, and abspath keeps them.
    return "/" + os.path.abspath(path).lstrip("/")  # noqa: PTH100


def _bucket_and_rest(uri: str) -> tuple[str, str]:
    _check_text(uri)
    _, separator, place = uri.partition("://")
    bucket, _, rest = place.partition("/")
    if "@" in bucket:
        raise InvalidUriError(
            "An S3 URI may not contain credentials: remove them, and use the environment, a "
            "profile or a role."
        )
    if not separator or not _BUCKET.fullmatch(bucket):
        raise _invalid(uri, "does not name a bucket: write s3://bucket/prefix")
    return bucket, rest


def _check_text(uri: str) -> None:
    if not uri:
        raise InvalidUriError(f"The URI of the store is empty: use {SUPPORTED}.")
    if "\0" in uri or not is_utf8(uri):
        raise _invalid(uri, "has a NUL character or is not UTF-8: rename the directory")


def _check_prefix(uri: str, prefix: str) -> None:
    try:
        check_key(prefix)
    except InvalidKeyError as error:
        raise _invalid(
            uri, "has a '.' or '..' part, or two slashes in a row: remove them"
        ) from error
    if "//" in prefix:
        raise _invalid(uri, "has two slashes in a row, which Spark would read as one: remove one")


def _invalid(uri: str, reason: str) -> InvalidUriError:
    return InvalidUriError(f"{uri!r} {reason}.")
