"""Records under other keys: what `mv` and `cp` make of a block."""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidKeyError
from sparklake.graveler.blocks import Block, block_of
from sparklake.graveler.columns import gather, varints_at
from sparklake.graveler.hashing import hashed
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import MAX_KEY_BYTES

_NO_IDENTITY = sha256(b"").digest()
_TOMBSTONE = b"\0\0"


def renamed(block: Block, cut: int, prefix: bytes) -> Block:
    """Returns records with a prefix in place of the first `cut` bytes of their keys.

    All keys must begin with the same `cut` bytes, so that they stay in order. Raises
    InvalidKeyError for a key that no object may have.
    """
    if not len(block):
        return block
    old = block.keys
    keys = _joined(prefix, gather(old.data, old.starts + cut, old.lengths - cut))
    _check(keys)
    # A key is a part of its record's id.
    lengths, starts = varints_at(block.data, block.value_starts)
    identities = gather(block.data, starts, lengths >> 1)
    ids = hashed(_joined(hashed(keys), hashed(identities)))
    plain = block.value_ends - block.value_starts - RECORD_ID_BYTES
    return block_of(keys, _joined(gather(block.data, block.value_starts, plain), ids))


def tombstones(block: Block) -> Block:
    """Returns the staged records that delete the keys of a block."""
    if not len(block):
        return block
    keys = block.key_array()
    return block_of(keys, _joined(_TOMBSTONE, hashed(_joined(hashed(keys), _NO_IDENTITY))))


def _joined(first: pa.BinaryArray | bytes, second: pa.BinaryArray | bytes) -> pa.BinaryArray:
    return pc.binary_join_element_wise(first, second, b"")


def _check(keys: pa.BinaryArray) -> None:
    wrong = pc.greater(pc.binary_length(keys), MAX_KEY_BYTES)
    # Only what had a prefix before it can begin so, or be nothing.
    wrong = pc.or_(wrong, pc.or_(pc.equal(keys, b""), pc.starts_with(keys, b"/")))
    for key in keys.filter(wrong).slice(0, 1).to_pylist():
        raise InvalidKeyError(
            f"an object would become {key[:60]!r}..., a key of {len(key)} bytes: keys have 1 to "
            f"{MAX_KEY_BYTES} and no '/' in front; choose another destination"
        )
