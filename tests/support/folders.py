"""Folders for tests that write thousands of small files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Make a folder, in memory where the system has a place for that: nothing waits for disks."""
    in_memory = _SHARED_MEMORY.is_dir() and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    parent = _SHARED_MEMORY if in_memory else None
    with tempfile.TemporaryDirectory(prefix="sparklake-tests-", dir=parent) as folder:
        yield Path(folder)
