"""A cache folder of tables, bounded in bytes and shared by one user's processes.

Writes, evictions and clears hold the folder's lock. Reads need no lock. The lock file has the
number of bytes in the folder. It is updated before a file is written, so a killed process leaves a
number that is too high, never too low. The next eviction recounts.

A file is a header (magic, CRC32C and length of the rest) and the table. The CRC detects damage by
the disk or a power cut. A damaged file is deleted and counts as a miss.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import google_crc32c

from sparklake.config import CacheSettings, cache_place
from sparklake.stores.cache.counts import TALLY, CacheCounts
from sparklake.stores.objects.local.files import store_errors

_LOG = logging.getLogger("sparklake.cache")

_HEADER = struct.Struct(">4sIQ")
_MAGIC = b"slc1"
_LOCK = "lock"
_INCOMING = "incoming"
"""The table being written. The name is fixed, so the next write replaces a dead process's file."""

# An eviction lists the folder, so it frees room for several tables.
_KEPT_WHEN_FULL = 0.9
# A use is recorded if the last recorded use is older, so most reads write nothing.
_USE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """The contents of a cache. `size` is in bytes, headers included."""

    tree_files: int
    size: int


@dataclass(frozen=True, slots=True)
class _CachedFile:
    path: Path
    size: int
    used: float


class DiskCache:
    """An LRU cache of several stores' tree files. Disk failures raise no errors."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._has_warned = False

    @property
    def counts(self) -> CacheCounts:
        """The counts of this process and its reported tasks."""
        return TALLY.total()

    def has(self, store: str, table_id: str) -> bool:
        """Return whether a table is cached. It may be damaged, or deleted at any moment."""
        return self._path(store, table_id).is_file()

    def find(self, store: str, table_id: str) -> bytes | None:
        """Return a table of a store, unchanged since it was cached, or None."""
        path = self._path(store, table_id)
        with self._forgiven(), suppress(FileNotFoundError), path.open("rb", 0) as file:
            content = _content(file.read(_HEADER.size), file.read())
            if content is None:
                path.unlink(missing_ok=True)
            elif time.time() - os.fstat(file.fileno()).st_mtime > _USE_SECONDS:
                os.utime(file.fileno())
            return content
        return None

    def keep(self, store: str, table_id: str, content: bytes) -> None:
        """Cache a table unless it is already cached; evict others first if needed."""
        path, size = self._path(store, table_id), _HEADER.size + len(content)
        if size > self.max_bytes:
            return
        with self._forgiven(), self._locked() as lock:
            if path.exists():
                return
            total = _read_number(lock)
            if total is None or total + size > self.max_bytes:
                total = self._evict(size)
            _write_number(lock, total + size)
            self._write(path, content)

    def drop(self, store: str, table_id: str) -> None:
        with self._forgiven():
            self._path(store, table_id).unlink(missing_ok=True)

    def usage(self) -> CacheUsage:
        with store_errors(self.folder):
            files = self._kept()
            return CacheUsage(len(files), sum(each.size for each in files))

    def clear(self) -> CacheUsage:
        with store_errors(self.folder), self._locked() as lock:
            files = self._kept()
            for path in (*(each.path for each in files), self.folder / _INCOMING):
                path.unlink(missing_ok=True)
            _write_number(lock, 0)
            return CacheUsage(len(files), sum(each.size for each in files))

    def _path(self, store: str, table_id: str) -> Path:
        return self.folder / store / table_id

    def _write(self, path: Path, content: bytes) -> None:
        incoming = self.folder / _INCOMING
        try:
            with incoming.open("wb") as file:
                file.write(_HEADER.pack(_MAGIC, google_crc32c.value(content), len(content)))
                file.write(content)
            path.parent.mkdir(exist_ok=True)
            incoming.rename(path)
        except BaseException:
            incoming.unlink(missing_ok=True)
            raise

    def _evict(self, room: int) -> int:
        """Delete least recently used tables until there is room; return the remaining bytes."""
        files = sorted(self._kept(), key=lambda each: each.used)
        total = sum(each.size for each in files)
        for each in files:
            if total <= max(0, self.max_bytes * _KEPT_WHEN_FULL - room):
                break
            # Processes that have the file open can still read it.
            each.path.unlink(missing_ok=True)
            total -= each.size
        return total

    def _kept(self) -> list[_CachedFile]:
        files = []
        for folder in filter(Path.is_dir, self.folder.iterdir()):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        files.append(_CachedFile(Path(entry.path), status.st_size, status.st_mtime))
        return files

    @contextmanager
    def _locked(self) -> Iterator[int]:
        lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield lock
            finally:
                # Explicitly, because a concurrently forked child also has the file
                # open.
                fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        """Treat a failure of the local disk as a cache miss, with one warning."""
        try:
            yield
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("the cache in %s fails and is skipped: %s", self.folder, error)


def find_cache(settings: CacheSettings) -> DiskCache | None:
    """Return this machine's cache, or None if it is disabled or unusable."""
    folder, max_bytes = cache_place(settings)
    return _cache(folder, max_bytes) if max_bytes else None


@lru_cache
def _cache(folder: Path, max_bytes: int) -> DiskCache | None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        _LOG.warning("tables are not cached: %s cannot be used: %s", folder, error)
        return None
    # The folder's files are trusted, so no other user may write here.
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        _LOG.warning("tables are not cached: other users can write to %s", folder)
        return None
    return DiskCache(folder, max_bytes)


def _content(header: bytes, content: bytes) -> bytes | None:
    if len(header) < _HEADER.size:
        return None
    magic, checksum, length = _HEADER.unpack(header)
    whole = magic == _MAGIC and length == len(content)
    return content if whole and google_crc32c.value(content) == checksum else None


def _read_number(lock: int) -> int | None:
    text = os.pread(lock, 32, 0)
    return int(text) if text.isdigit() else None


def _write_number(lock: int, number: int) -> None:
    # The length is constant, so one write replaces the number.
    os.pwrite(lock, b"%020d" % number, 0)
