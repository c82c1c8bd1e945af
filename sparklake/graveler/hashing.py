"""SHA-256 of many items at once.

Calling Python's SHA-256 takes ten times as long as hashing forty bytes. So DataFusion hashes
columns where it is installed (the extra `fast`).
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pyarrow as pa

_MANY = 1024
"""The least number of items for which a DataFusion query pays."""


def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    """Return the SHA-256 of each item, 32 bytes."""
    context = _context() if len(items) >= _MANY else None
    if context is None:
        return pa.array([sha256(item).digest() for item in items.to_pylist()], pa.binary())
    from datafusion import col, functions

    # The context keeps each table until it is deregistered. Threads share the context.
    name = f"items_{uuid4().hex}"
    rows = context.from_arrow(pa.record_batch([items], names=["item"]), name)
    try:
        digests = rows.select(functions.sha256(col("item"))).to_arrow_table().column(0)
    finally:
        context.deregister_table(name)
    return pa.concat_arrays(digests.chunks).cast(pa.binary())


@cache
def _context() -> Any:
    """Return a DataFusion context with one partition; None without DataFusion."""
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError:
        return None
    # One partition, and batches of any size: rows keep their order.
    return SessionContext(SessionConfig().with_target_partitions(1))
