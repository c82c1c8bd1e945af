"""Walks of a user's folder: files and skipped paths."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sparklake.stores.objects.local.files import NO_FILE_ERRORS, TEMPORARY, store_errors


class SkipReason(str, Enum):
    LINK = "link"
    DANGLING_LINK = "dangling_link"
    LINK_LOOP = "link_loop"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"
    RESERVED = "reserved_name"


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A skipped path, relative to the walked folder."""

    path: str
    reason: SkipReason


_Identity = tuple[int, int]

_KINDS = {
    stat.S_IFIFO: SkipReason.FIFO,
    stat.S_IFSOCK: SkipReason.SOCKET,
    stat.S_IFCHR: SkipReason.DEVICE,
    stat.S_IFBLK: SkipReason.DEVICE,
}


def walk_files(
    root: Path, *, follow_links: bool = False, enter: Callable[[Path], object]
) -> Iterator[str | SkippedPath]:
    """Yield files and skipped paths, by name. `enter` is called with each followed link."""
    waiting: list[tuple[str, tuple[_Identity, ...]]] = [("", (_identity(root.stat()),))]
    while waiting:
        folder, above = waiting.pop()
        for name in _names(root / folder):
            path = f"{folder}/{name}" if folder else name
            status = _look_at(root / path, follow_links=follow_links)
            if isinstance(status, SkipReason):
                yield SkippedPath(path, status)
            elif stat.S_ISREG(status.st_mode):
                yield path
            elif _identity(status) in above:
                yield SkippedPath(path, SkipReason.LINK_LOOP)
            else:
                if (root / path).is_symlink():
                    enter(root / path)
                waiting.append((path, (*above, _identity(status))))


def _names(folder: Path) -> list[str]:
    with store_errors(folder), suppress(*NO_FILE_ERRORS):
        return sorted(each.name for each in folder.iterdir())
    return []


def _look_at(path: Path, *, follow_links: bool) -> os.stat_result | SkipReason:
    if path.name == TEMPORARY:
        return SkipReason.RESERVED
    with store_errors(path):
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                if not follow_links:
                    return SkipReason.LINK if path.exists() else SkipReason.DANGLING_LINK
                status = path.stat()
        except NO_FILE_ERRORS:
            return SkipReason.DANGLING_LINK
        except OSError as error:
            if error.errno == errno.ELOOP:
                return SkipReason.LINK_LOOP
            raise
    return _KINDS.get(stat.S_IFMT(status.st_mode), status)


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
