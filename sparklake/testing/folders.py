"""Folders in memory, for thousands of small files and for servers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

_PLENTY_BYTES = 4 << 30


def memory_root() -> Path | None:
    """Return the in-memory file system, or None if it is missing or too small."""
    try:
        free = shutil.disk_usage(SHARED_MEMORY).free
    except OSError:
        return None
    writable = os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return SHARED_MEMORY if writable and free >= _PLENTY_BYTES else None


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Create a folder, in memory if possible: a sync to disk takes milliseconds."""
    with tempfile.TemporaryDirectory(prefix="sparklake-tests-", dir=memory_root()) as folder:
        yield Path(folder)
