"""Verification of records: their order, their ids, and their entries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import SparklakeError
from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import digests_at, gather, joined, sha256_each, varints_at
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.blocks.entry_columns import decode_entries, entry_identities
from sparklake.graveler.buffers import Mask, data_of, mask_of
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import MAX_KEY_BYTES


@kernels.defines(kernels.record_problem)
def record_problem(block: Block, encoded: EncodedRecords) -> str:
    """Describe the fault in a table's records, or return ""."""
    if problem := id_problem(block, encoded):
        return problem
    try:
        identities, wrong = _identities_of(encoded), np.zeros(len(encoded), bool)
        live = np.flatnonzero(~block.tombstones)
        entries = decode_entries(block.take(live))
        live_identities = identities.take(pa.array(live))
        differs = mask_of(pc.not_equal(entry_identities(entries), live_identities))
        if differs.any():
            wrong[live] = differs
            return _counted(wrong, encoded, "an entry that does not match its identity")
        if (entries.size < 0).any():
            wrong[live] = entries.size < 0
            return _counted(wrong, encoded, "a negative size")
    except (SparklakeError, IndexError, ValueError, pa.ArrowException) as error:
        return f"a record is not the entry of an object: {error}"
    return ""


def id_problem(block: Block, encoded: EncodedRecords) -> str:
    """Describe the fault in the order or the ids of any records, or return ""."""
    try:
        if not encoded.is_ascending:
            return "its keys are not in ascending order"
        wrong = _wrong_ids(block, encoded, _identities_of(encoded))
    except (SparklakeError, IndexError, ValueError, pa.ArrowException) as error:
        return f"its records cannot be read: {error}"
    if wrong.any():
        return _counted(wrong, encoded, "a record id that does not match its key and identity")
    return ""


def key_problem(encoded: EncodedRecords) -> str:
    """Describe verified records with keys other than paths, or return ""."""
    keys = encoded.key_array()
    wrong = mask_of(pc.greater(pc.binary_length(keys), MAX_KEY_BYTES))
    if wrong.any():
        return _counted(wrong, encoded, f"a key of more than {MAX_KEY_BYTES} bytes")
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array(
            [key.decode(errors="ignore").encode() != key for key in keys.to_pylist()], bool
        )
        return _counted(wrong, encoded, "a key that is not UTF-8")
    return ""


def _counted(wrong: Mask, encoded: EncodedRecords, what: str) -> str:
    rows = np.flatnonzero(wrong)
    key, _ = encoded.record(int(rows[0]))
    return f"{len(rows):,} of {len(encoded):,} records have {what}: the first is {shown_key(key)!r}"


def _identities_of(encoded: EncodedRecords) -> pa.BinaryArray:
    lengths, starts = varints_at(encoded.data, encoded.value_starts)
    lengths >>= 1
    if (lengths < 0).any() or (starts + lengths > encoded.value_ends).any():
        raise IndexError("a stored value is truncated")
    return gather(encoded.data, starts, lengths)


def _wrong_ids(block: Block, encoded: EncodedRecords, identities: pa.BinaryArray) -> Mask:
    """Return the mask of records that do not end in their own id, or differ from `ids`."""
    pairs = joined(sha256_each(encoded.key_array()), sha256_each(identities))
    exact = digests_at(data_of(sha256_each(pairs)), np.arange(len(encoded)) * RECORD_ID_BYTES)
    trailers = digests_at(encoded.data, encoded.value_ends - RECORD_ID_BYTES)
    wrong: Mask = (exact != trailers).any(axis=1) | (exact != block.ids).any(axis=1)
    return wrong


def shown_key(key: bytes) -> str:
    return key.decode(errors="replace")
