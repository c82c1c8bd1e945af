"""Temporary folders per process; a later process removes those of dead processes."""

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

from sparklake.config import disk_root

_LOCK = "lock"
_UNNAMED = "new-lock"
_YOUNG_SECONDS = 600

# Open descriptors, kept for the life of the process.
_held: list[int] = []


@contextmanager
def scratch_folder(root: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder, by default inside the one for large files."""
    home = _home(root or disk_root(), os.getpid())
    # Late writes of another process into the folder are removed with this process's folder.
    with tempfile.TemporaryDirectory(dir=home, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@lru_cache
def _home(root: Path, process: int) -> Path:
    """Return the folder of this process. A forked child has its own."""
    remove_abandoned(root)
    home = Path(tempfile.mkdtemp(prefix=_prefix(), dir=root))
    # It is locked before it gets its final name, so that no other process finds it unlocked.
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
    """Remove the folders of this user's dead processes."""
    for home in root.glob(f"{_prefix()}*"):
        if _is_abandoned(home):
            shutil.rmtree(home, ignore_errors=True)


def _is_abandoned(home: Path) -> bool:
    try:
        if time.time() - home.stat().st_mtime < _YOUNG_SECONDS and not (home / _LOCK).exists():
            return False  # It is being created.
        with (home / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _prefix() -> str:
    return f"sparklake-{os.getuid()}-"
