"""Temporary folders that do not outlive their process for long, even when it is killed.

A process keeps its folders below one of its own, which it holds locked. The lock dies with it, and
the next process removes what nobody holds.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from sparklake.config import fast_root

_LOCK = "lock"
_UNNAMED = "new-lock"
_YOUNG_SECONDS = 600

# Descriptors, open as long as the process lives.
_held: list[int] = []


@contextmanager
def scratch_folder(root: Path | None = None) -> Iterator[Path]:
    """Make a folder for temporary files, gone at the end; in memory where there is plenty.

    It is for what a task reads and writes: some tens of megabytes of tables, whose every file
    RocksDB syncs, which costs milliseconds on a disk. Give `disk_root()` for what may be larger.
    """
    home = _home(root or fast_root(), os.getpid())
    # What another process still writes there when it ends goes with this process's own folder.
    with tempfile.TemporaryDirectory(dir=home, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@lru_cache
def _home(root: Path, process: int) -> Path:
    """Return the folder of this process, made at its first call; a forked child has its own."""
    remove_abandoned(root)
    home = Path(tempfile.mkdtemp(prefix=_prefix(), dir=root))
    # Locked before it has its name, lest another process find it free.
    lock = os.open(home / _UNNAMED, os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (home / _UNNAMED).rename(home / _LOCK)
    _held.append(lock)
    atexit.register(_leave, home, process)
    return home


def _leave(home: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(home, ignore_errors=True)


def remove_abandoned(root: Path) -> None:
    """Remove the folders of this user's processes that are no more."""
    for home in root.glob(f"{_prefix()}*"):
        if _is_abandoned(home):
            shutil.rmtree(home, ignore_errors=True)


def _is_abandoned(home: Path) -> bool:
    try:
        if time.time() - home.stat().st_mtime < _YOUNG_SECONDS and not (home / _LOCK).exists():
            return False  # It is being made.
        with (home / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _prefix() -> str:
    return f"sparklake-{os.getuid()}-"
