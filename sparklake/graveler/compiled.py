"""Adapters from columns to the buffers of compiled kernels, and back.

Each function has the signature of the definition that names it, and raises Declined where the
definition must run. `library` checks all bounds, because it trusts no caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparklake.graveler.blocks.buffers import Bytes, binary_array, data_of, offsets_of
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.kernels import library

if TYPE_CHECKING:
    import pyarrow as pa


def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    """Return the SHA-256 of each item."""
    digests = library.sha256_each(data_of(items), offsets_of(items))
    return _digests(digests)


def _digests(data: Bytes) -> pa.BinaryArray:
    return binary_array(np.arange(0, len(data) + 1, RECORD_ID_BYTES), data)
