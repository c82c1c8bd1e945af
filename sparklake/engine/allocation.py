"""How a worker's memory is allocated, and given back."""

from __future__ import annotations

import ctypes

import pyarrow as pa

# glibc takes blocks of 128 KiB and more from the system one at a time and returns each when it is
# freed; the system fills every page with zeros. For what reads ranges that is a third of the time.
# So what was freed is kept. Whoever has set these variables is left alone; other C libraries
# ignore them.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}


def give_back_memory() -> None:
    """Gives the system the memory that this process keeps for later."""
    pa.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
