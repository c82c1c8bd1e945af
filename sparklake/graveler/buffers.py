"""Column types, and access to the buffers of Arrow byte arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Ids = NDArray[np.uint64]  # A row of four words per valueRecordID, in memory order.

NO_BYTES = np.zeros(0, np.uint8)


def binary_array(offsets: NDArray[Any], data: Any) -> pa.BinaryArray:
    """Return an array of `data[offsets[i]:offsets[i + 1]]`, without a copy."""
    offsets = np.ascontiguousarray(offsets, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def mask_of(column: pa.BooleanArray) -> Mask:
    """Return a column as a mask. Nulls are False."""
    mask: Mask = column.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def offsets_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the start of each item in an array's data, and the last item's end."""
    if len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def data_of(array: pa.BinaryArray) -> Bytes:
    data = array.buffers()[2]
    return NO_BYTES if data is None else np.frombuffer(data, np.uint8)
