"""A folder of tables, bounded in bytes and shared by the processes of one user.

Whoever writes, evicts or clears holds the lock of the folder; whoever reads needs none. The lock's
file says how many bytes the folder holds: written before a table is, so a process that is killed in
between leaves a number that is too high, never one that is too low. The next eviction counts anew.

A file is a header (its magic, the CRC32C and the length of what follows) and the table. The CRC
finds what a disk or a power cut did: such a file is dropped, and counts as one that was never here.
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
from sparklake.stores.objects.local_files import store_errors

_LOG = logging.getLogger("sparklake.cache")

_HEADER = struct.Struct(">4sIQ")
_MAGIC = b"slc1"
_LOCK = "lock"
_INCOMING = "incoming"
"""The table being written: one at a time, so that what the dead left behind is overwritten."""

# To evict means to list the folder; it makes room for some time.
_KEPT_WHEN_FULL = 0.9
# A use is noted when the last one noted is older, so that most reads write nothing.
_USE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """What a cache holds; `size` in bytes, headers included."""

    tables: int
    size: int


@dataclass(frozen=True, slots=True)
class _Kept:
    path: Path
    size: int
    used: float


class DiskCache:
    """Keeps tables of several stores on local disk; what was used least recently goes first.

    Its files never take more than `max_bytes`; one more table may be left there by a process that
    was killed while it wrote. A disk that fails costs time, never an error: see `_forgiven`.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._has_warned = False

    @property
    def counts(self) -> CacheCounts:
        """Hits and misses of this process, and of the tasks that reported to it."""
        return TALLY.total()

    def has(self, store: str, table_id: str) -> bool:
        """Return whether a table is here; it may be damaged, or gone the next moment."""
        return self._path(store, table_id).is_file()

    def find(self, store: str, table_id: str) -> bytes | None:
        """Return a table of a store, whole as it entered, or None."""
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
        """Take in a table unless it is here; makes room for it first."""
        path, size = self._path(store, table_id), _HEADER.size + len(content)
        if size > self.max_bytes:
            return
        with self._forgiven(), self._locked() as lock:
            if path.exists():
                return
            held = _read_number(lock)
            if held is None or held + size > self.max_bytes:
                held = self._evict(size)
            _write_number(lock, held + size)
            self._write(path, content)

    def drop(self, store: str, table_id: str) -> None:
        """Remove a table, if it is here."""
        with self._forgiven():
            self._path(store, table_id).unlink(missing_ok=True)

    def usage(self) -> CacheUsage:
        """Return how much is here, counted file by file."""
        with store_errors(self.folder):
            kept = self._kept()
            return CacheUsage(len(kept), sum(each.size for each in kept))

    def clear(self) -> CacheUsage:
        """Remove everything; return how much it was."""
        with store_errors(self.folder), self._locked() as lock:
            kept = self._kept()
            for path in (*(each.path for each in kept), self.folder / _INCOMING):
                path.unlink(missing_ok=True)
            _write_number(lock, 0)
            return CacheUsage(len(kept), sum(each.size for each in kept))

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
        """Remove what was used least recently until there is room; return the bytes left."""
        kept = sorted(self._kept(), key=lambda each: each.used)
        held = sum(each.size for each in kept)
        for each in kept:
            if held <= max(0, self.max_bytes * _KEPT_WHEN_FULL - room):
                break
            # Whoever has it open reads on.
            each.path.unlink(missing_ok=True)
            held -= each.size
        return held

    def _kept(self) -> list[_Kept]:
        kept = []
        for folder in filter(Path.is_dir, self.folder.iterdir()):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        kept.append(_Kept(Path(entry.path), status.st_size, status.st_mtime))
        return kept

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the open lock file, which no other process or thread holds."""
        lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield lock
            finally:
                # Not by the close alone: a child forked meanwhile has it open too.
                fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        """Take a failure of the local disk for a table that is not here, and says so once.

        The store has all that a cache has: a full or broken local disk must not stop the work.
        """
        try:
            yield
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("the cache in %s fails, and is passed over: %s", self.folder, error)


def find_cache(settings: CacheSettings) -> DiskCache | None:
    """Return this machine's cache, or None where it is switched off or cannot be used."""
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
    # What lies here is believed: nobody else may write here.
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        _LOG.warning("tables are not cached: %s can be written by other users", folder)
        return None
    return DiskCache(folder, max_bytes)


def _content(header: bytes, content: bytes) -> bytes | None:
    """Return what a file holds, or None if that is not what was written."""
    if len(header) < _HEADER.size:
        return None
    magic, checksum, length = _HEADER.unpack(header)
    whole = magic == _MAGIC and length == len(content)
    return content if whole and google_crc32c.value(content) == checksum else None


def _read_number(lock: int) -> int | None:
    """Return the number of bytes held, or None where nobody has noted it."""
    noted = os.pread(lock, 32, 0)
    return int(noted) if noted.isdigit() else None


def _write_number(lock: int, number: int) -> None:
    # Of one length always, so that it is overwritten in one go.
    os.pwrite(lock, b"%020d" % number, 0)
