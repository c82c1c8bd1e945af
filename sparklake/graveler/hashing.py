"""SHA-256 of many items at once.

Python's own takes ten times as long to be called as to hash forty bytes, so columns are hashed by
DataFusion where that is installed (the extra `fast`).
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pyarrow as pa

_MANY = 1024
"""From how many items on it is worth to set up DataFusion's query."""


def hashed(items: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the SHA-256 of each item, 32 bytes."""
    context = _context() if len(items) >= _MANY else None
    if context is None:
        return pa.array([sha256(item).digest() for item in items.to_pylist()], pa.binary())
    from datafusion import col, functions

    # The context holds what it is given until it is told to let go; threads share it.
    name = f"items_{uuid4().hex}"
    rows = context.from_arrow(pa.record_batch([items], names=["item"]), name)
    try:
        digests = rows.select(functions.sha256(col("item"))).to_arrow_table().column(0)
    finally:
        context.deregister_table(name)
    return pa.concat_arrays(digests.chunks).cast(pa.binary())


@cache
def _context() -> Any:
    """Returns what runs DataFusion's queries, one thread each, or None without DataFusion."""
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError:
        return None
    # One partition and batches of any size: what goes in comes out in its order.
    return SessionContext(SessionConfig().with_target_partitions(1))
