"""Local files: durable atomic writes, and listings of directories."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from sparklake.errors import (
    InvalidKeyError,
    MissingFileError,
    SparklakeError,
    StoreError,
    StorePermissionError,
)
from sparklake.graveler.ports import ContentPart, StoredFolder, StoredObject
from sparklake.stores.objects.key_checks import check_key

_FULL = " To delete garbage of a full namespace, run `sparklake gc run` with --work."
_NO_LINKS_HERE = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_CANNOT_LINK = {*_NO_LINKS_HERE, errno.EXDEV, errno.EACCES, errno.EMLINK}
_NO_READER = {errno.ENXIO, errno.ENODEV}  # of a socket, or of a device without a driver
_SMALL_BYTES = 256 * 1024
_HASHED_AT_ONCE = 1024 * 1024


def stream_md5(file: BinaryIO) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(_HASHED_AT_ONCE):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def store_errors(path: Path | str) -> Iterator[None]:
    """Convert OS errors to store errors. `path` is used if the error has none."""
    try:
        yield
    except SparklakeError:
        raise
    except PermissionError as error:
        raise StorePermissionError(
            f"Permission denied for {_place(error, path)}: allow this user to read and write there."
        ) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StorePermissionError(
                f"The file system of {_place(error, path)} is read-only: mount it for writing."
            ) from error
        raise StoreError(
            f"The file system failed at {_place(error, path)}: {error.strerror or error}. "
            "Correct that, then run the command again: files that are already written are "
            "kept." + (_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else "")
        ) from error


def _place(error: OSError, path: Path | str) -> str:
    paths = [str(each) for each in (error.filename, error.filename2) if each is not None]
    return " -> ".join(paths) or str(path)


def open_file(path: Path | str) -> int:
    """Open a regular file for reading. Never blocks on a FIFO."""
    return _sized_file(path)[0]


def _sized_file(path: Path | str) -> tuple[int, int]:
    """Open a regular file as `open_file` does, and return its size, too."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:
        descriptor = os.open(path, flags)  # Another process has a lease, which only files have.
    except OSError as error:
        if error.errno in _NO_READER:
            raise _not_a_file(path) from error
        raise
    status = os.fstat(descriptor)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return descriptor, status.st_size
    os.close(descriptor)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _not_a_file(path)


def _not_a_file(path: Path | str) -> MissingFileError:
    return MissingFileError(
        f"The object {path} is a FIFO, a socket or a device: replace it with a regular file, or "
        "remove it."
    )


def open_stream(path: Path | str) -> BinaryIO:
    return os.fdopen(open_file(path), "rb")


def link_or_copy(source: Path, target: Path) -> None:
    """Create `target` as a hard link of a file, or a copy where links are impossible."""
    os.close(open_file(source))
    try:
        # Resolved, because a link to a symbolic link would not keep the data.
        os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        with whole_file(target) as copy:
            shutil.copyfile(source, copy)


def link_new(source: Path, target: Path) -> bool:
    """Link a file to a free name; return False if the name exists. Atomic."""
    try:
        os.link(source, target)
    except FileExistsError as error:
        if target.is_file():
            return False
        raise StoreError(
            f"{target} is not a file and blocks the key: move it, or use another key."
        ) from error
    except OSError as error:
        if error.errno in _NO_LINKS_HERE:
            raise StoreError(
                f"The file system of {target} has no hard links, which sparklake needs to write "
                "safely: use another file system or a bucket."
            ) from error
        raise
    return True


class LocalFile:
    """The content of an immutable file. A small one is read at once and closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._descriptor, self._size = _sized_file(path)
        self._whole: bytes | None = None
        if self._size <= _SMALL_BYTES:
            self._whole = _read_part(self._descriptor, 0, self._size)
            self._close()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        if self._whole is not None:
            return self._whole[part]
        start, stop, _ = part.indices(self._size)
        with store_errors(self._path):
            return _read_part(self._descriptor, start, stop)

    def __reduce__(self) -> tuple[type[LocalFile], tuple[str]]:
        return LocalFile, (self._path,)

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_part(path: Path | str, start: int, stop: int) -> ContentPart:
    descriptor, size = _sized_file(path)
    try:
        return ContentPart(_read_part(descriptor, start, stop), size)
    finally:
        os.close(descriptor)


def _read_part(descriptor: int, start: int, stop: int) -> bytes:
    # The system may return fewer bytes than requested.
    parts = []
    while start < stop and (part := os.pread(descriptor, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to `path`, renamed to `path` if there is no error."""
    temporary = path.with_name(f"{path.name[:40]}.{uuid4().hex}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def make_directories(path: Path) -> list[Path]:
    """Create a directory and its parents; return the modified directories."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
    return [each.parent for each in missing]


def write_new(body: bytes, path: Path) -> None:
    """Create a file and start its writeback, which is faster than concurrent syncs."""
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        start_writeback(file)


def start_writeback(file: BinaryIO) -> None:
    if hasattr(os, "posix_fadvise"):
        # On Linux this starts writing, and only drops pages that have been written already.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network file systems cannot sync a directory: the server is responsible there.
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(descriptor)


TEMPORARY = ".sparklake-tmp"
"""The folder for incomplete files under the root. No key may have such a part."""

# A key may lead to a directory or through a file. S3 would report all of these as not found.
NO_FILE_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def walk(root: Path, folder: str, start: str) -> Iterator[StoredObject]:
    """Yield the files under a folder. The first part of their paths starts with `start`."""
    for each in scan(root, folder, start):
        check_key(each.key)
        if isinstance(each, StoredObject):
            yield each


def scan(
    root: Path, folder: str, start: str = "", *, level: bool = False
) -> Iterator[StoredObject | StoredFolder]:
    """Yield the files under a folder or, with `level`, only its direct files and folders."""
    if is_alias(root, root / folder):
        return
    waiting = [(folder, start)]
    while waiting:
        folder, start = waiting.pop()
        for entry, status in _entries(root / folder):
            if entry.name == TEMPORARY or not entry.name.startswith(start):
                continue
            key = f"{folder}/{entry.name}" if folder else entry.name
            if level and entry.is_dir(follow_symlinks=False):
                yield StoredFolder(f"{key}/")
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((key, ""))
            elif stat.S_ISDIR(status.st_mode):
                check_inside(root, root / key)
            elif (file := stored(key, status)) is not None:
                yield file


def scan_level(root: Path, folder: str) -> Iterator[StoredFolder | None]:
    """Yield one level without `stat` calls: each folder, and None for each other entry."""
    place = root / folder
    if is_alias(root, place):
        return
    with store_errors(place), suppress(*NO_FILE_ERRORS), os.scandir(place) as entries:
        for entry in entries:
            if entry.name != TEMPORARY:
                key = f"{folder}/{entry.name}/" if folder else f"{entry.name}/"
                yield StoredFolder(key) if entry.is_dir(follow_symlinks=False) else None


def _entries(folder: Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with store_errors(folder), suppress(*NO_FILE_ERRORS), os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except NO_FILE_ERRORS:
                continue
            yield entry, status


def stored(key: str, status: os.stat_result) -> StoredObject | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredObject(key, status.st_size, status.st_mtime_ns)


def is_alias(root: Path, folder: Path) -> bool:
    """Return whether symbolic links lead to another folder of the store.

    Raises:
        InvalidKeyError: They lead out of the store.
    """
    # Resolving the paths would take several times as long. `Path.is_symlink` raises if permission
    # is missing, which the next access reports.
    if not any(map(os.path.islink, takewhile(root.__ne__, (folder, *folder.parents)))):
        return False
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(os.path.realpath(root)):
        raise InvalidKeyError(
            f"The symbolic link {folder} leads outside the store {root}, to {real}: replace it "
            "with a directory, or use its target as the store."
        )
    return True


def check_inside(root: Path, folder: Path) -> None:
    """Raise `InvalidKeyError` if symbolic links lead out of the store."""
    is_alias(root, folder)
