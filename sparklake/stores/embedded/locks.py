"""Advisory locks on files: the system frees them when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from sparklake.errors import RefStoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_SECONDS = 0.005


class FileLock:
    """One open file to lock. A forked child gives it up, without freeing its parent's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = _open(path)
        _OPEN.add(self)

    def share(self, seconds: float) -> None:
        """Take the lock together with others who share it."""
        self._wait(fcntl.LOCK_SH, seconds)

    def take(self, seconds: float) -> None:
        """Take the lock alone."""
        self._wait(fcntl.LOCK_EX, seconds)

    def try_take(self) -> bool:
        """Take the lock alone, or returns False when another holds it; a share is then lost."""
        return self._try(fcntl.LOCK_EX)

    def fileno(self) -> int:
        """Return the descriptor, for a process to inherit: it then holds the lock too."""
        assert self._descriptor is not None
        return self._descriptor

    def close(self) -> None:
        """Free the lock, unless another process has inherited it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _wait(self, kind: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._try(kind):
            if time.monotonic() > deadline:
                raise RefStoreUnavailableError(
                    f"another process has kept {self.path} locked for {seconds:.0f} s: see which "
                    "one hangs while it starts or stops Postgres"
                )
            time.sleep(_POLL_SECONDS)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold a file's lock alone."""
    lock = FileLock(path)
    try:
        lock.take(seconds)
        yield
    finally:
        lock.close()


def _open(path: Path) -> int:
    """Open a file to lock, made for its folder's owner, whom root may be working for."""
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
