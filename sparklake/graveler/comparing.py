"""Compares records by their ids, many at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.columns import Ids, Mask, Positions
from sparklake.graveler.ids import RECORD_ID_BYTES


def unequal(left: Ids, right: Ids) -> tuple[Mask, Mask]:
    """Tells which ids of either side the other side does not have; both are in key order."""
    ours, theirs = left[:, 0], right[:, 0]
    words = np.sort(np.concatenate((ours, theirs)))
    twice = words[1:] == words[:-1]
    once = np.ones(len(words), bool)
    once[1:] &= ~twice
    once[:-1] &= ~twice
    alone = pa.array(words[once])
    masks = [_is_in(pa.array(np.ascontiguousarray(each)), alone) for each in (ours, theirs)]
    # So far by their first words. What is left must be the same in full, and in the same order.
    if not np.array_equal(left[~masks[0]], right[~masks[1]]):
        masks = [~_is_in(*map(_digests, pair)) for pair in ((left, right), (right, left))]
    return masks[0], masks[1]


def found_ids(ids: Ids, wanted: Ids) -> Positions:
    """Returns where each wanted id is among some ids, -1 where it is not."""
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1)
    words = (pa.array(np.ascontiguousarray(each[:, 0])) for each in (wanted, ids))
    at: Positions = pc.index_in(*words).fill_null(-1).to_numpy().astype(np.int64)
    at[(ids[at] != wanted).any(axis=1)] = -1
    return at


def _is_in(values: pa.Array, among: pa.Array) -> Mask:
    mask: Mask = pc.is_in(values, among).to_numpy(zero_copy_only=False)
    return mask


def _digests(ids: Ids) -> pa.FixedSizeBinaryArray:
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_ID_BYTES), len(ids), [None, buffer]
    )
