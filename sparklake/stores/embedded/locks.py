"""Advisory file locks. The system releases them when the holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from weakref import WeakSet

from sparklake.errors import RefStoreUnavailableError

_POLL_SECONDS = 0.005


class FileLock:
    """An open lock file. A forked child closes it without releasing its parent's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = _open(path)
        _OPEN.add(self)

    def share(self, seconds: float) -> None:
        self._wait(fcntl.LOCK_SH, seconds)

    def take(self, seconds: float) -> None:
        self._wait(fcntl.LOCK_EX, seconds)

    def try_take(self) -> bool:
        """Try to acquire an exclusive lock. A shared lock of this object may be lost."""
        return self._try(fcntl.LOCK_EX)

    def fileno(self) -> int:
        """Return the descriptor. A process that inherits it also holds the lock."""
        assert self._descriptor is not None
        return self._descriptor

    def close(self) -> None:
        """Release the lock, unless another process inherited it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _wait(self, kind: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._try(kind):
            if time.monotonic() > deadline:
                raise RefStoreUnavailableError(
                    f"another process has locked {self.path} for {seconds:.0f} s: find the "
                    "process that hangs while it starts or stops Postgres"
                )
            time.sleep(_POLL_SECONDS)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[FileLock]:
    with closing(FileLock(path)) as lock:
        lock.take(seconds)
        yield lock


def _open(path: Path) -> int:
    """Open a lock file, owned by the owner of its folder even if root creates it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RefStoreUnavailableError(f"cannot open {path}: {error.strerror}") from error
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


_OPEN: WeakSet[FileLock] = WeakSet()


def _close_in_child() -> None:
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_in_child)
