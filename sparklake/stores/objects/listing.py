"""The files under a directory, as objects."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.errors import InvalidKeyError
from sparklake.graveler.ports import Folder, StoredObject
from sparklake.stores.objects.files import store_errors
from sparklake.stores.objects.keys import check_key

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = ".sparklake-tmp"
"""The directory under the root for files that are not complete; no key may have such a part."""

# A key may end at, or lead through, what is no such thing: S3 would say "not found" to each.
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def walk(root: Path, folder: str, start: str) -> Iterator[StoredObject]:
    """Yields the files under a folder, of which the first part of the path begins with `start`."""
    for each in scan(root, folder, start):
        check_key(each.key)
        if isinstance(each, StoredObject):
            yield each


def scan(
    root: Path, folder: str, start: str = "", *, level: bool = False
) -> Iterator[StoredObject | Folder]:
    """Yields the files under a folder, whatever their names; with `level`, those right in it.

    With `level` it yields its folders, too.
    """
    if _is_alias(root, root / folder):
        return
    waiting = [(folder, start)]
    while waiting:
        folder, start = waiting.pop()
        for entry, status in _entries(root / folder):
            if entry.name == TEMPORARY or not entry.name.startswith(start):
                continue
            key = f"{folder}/{entry.name}" if folder else entry.name
            if level and entry.is_dir(follow_symlinks=False):
                yield Folder(f"{key}/")
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((key, ""))
            elif stat.S_ISDIR(status.st_mode):
                resolve(root, root / key)  # raises if the link leads out
            elif (found := stored(key, status)) is not None:
                yield found


def _entries(folder: Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Yields what a folder holds, without what is removed meanwhile."""
    with store_errors(folder), suppress(*ABSENT), os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except ABSENT:
                continue
            yield entry, status


def stored(key: str, status: os.stat_result) -> StoredObject | None:
    """Returns a file as an object, and None for a directory, a socket or a device."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredObject(key, status.st_size, status.st_mtime_ns)


def _is_alias(root: Path, folder: Path) -> bool:
    """Says whether a folder is another one of the same store, by a symbolic link."""
    return resolve(root, folder) != Path(os.path.realpath(root)) / folder.relative_to(root)


def resolve(root: Path, folder: Path) -> Path:
    """Returns where a folder really is; raises if symbolic links lead out of the root."""
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(os.path.realpath(root)):
        raise InvalidKeyError(
            f"The symbolic link {folder} leads out of the store {root}, to {real}: replace it by "
            "a directory, or use the store that it leads to."
        )
    return real
