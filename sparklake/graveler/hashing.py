"""SHA-256 of many items at once."""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa

from sparklake.graveler import compiled
from sparklake.graveler.kernels import kernel


@kernel(compiled.sha256_each)
def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    """Return the SHA-256 of each item, 32 bytes."""
    return pa.array([sha256(item).digest() for item in items.to_pylist()], pa.binary())
