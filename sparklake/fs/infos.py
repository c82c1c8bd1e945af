"""What a file system says of what is in a lake, in fsspec's own form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sparklake.errors import (
    InvalidKeyError,
    InvalidNameError,
    InvalidRefError,
    InvalidUriError,
    ObjectNotFoundError,
)
from sparklake.graveler.times import datetime_of_nanoseconds
from sparklake.udfs.objects.rows import ObjectInfo
from sparklake.uri import SCHEME, LakeUri, parse_uri
from sparklake.verbs.objects.folders import Folder

Info = dict[str, Any]


def place_of(path: str) -> LakeUri | None:
    """Returns what a path without its protocol names, None for the root; raises InvalidUriError."""
    return parse_uri(SCHEME + path) if path else None


def path_of(place: LakeUri) -> str:
    """Returns the path without its protocol."""
    return str(place).removeprefix(SCHEME)


def directory(path: str) -> Info:
    """Returns what is said of a directory; it is there as long as something is in it."""
    return {"name": path, "size": 0, "type": "directory"}


def file_info(path: str, found: ObjectInfo) -> Info:
    """Returns what is said of an object."""
    return {
        "name": path,
        "size": found.size,
        "type": "file",
        "mtime": datetime_of_nanoseconds(found.mtime),
        "checksum": found.checksum,
        "content_type": found.content_type,
        "metadata": found.metadata,
    }


def entries(root: str, found: Iterable[ObjectInfo | Folder]) -> Iterator[Info]:
    """Yields what is said of a level of a ref; `root` is the path of the ref.

    Objects whose path ends with a slash are left out: they stand for directories elsewhere, and no
    file can have such a name.
    """
    for each in found:
        if isinstance(each, Folder):
            yield directory(f"{root}/{each.path[:-1]}")
        elif not each.path.endswith("/"):
            yield file_info(f"{root}/{each.path}", each)


def directories_above(path: str, top: str) -> Iterator[str]:
    """Yields the directories that a file is in, from the nearest up to a top one, that included."""
    while len(path) > len(top) and "/" in path:
        path = path.rpartition("/")[0]
        yield path


@contextmanager
def nothing_there(path: str) -> Iterator[None]:
    """Says of a name that nothing can have that there is nothing."""
    try:
        yield
    except (InvalidUriError, InvalidNameError, InvalidRefError, InvalidKeyError) as error:
        raise ObjectNotFoundError(f"there is nothing at {path!r}: {error}") from error
