"""Records that say in a virtual merge base that the ancestors disagree on a key.

The identity of such a record is no object's, and of each virtual merge another one: it equals no
side of a merge, so that a key is in conflict unless source and dest are equal. A merge takes the
records of source or dest, or what a conflict ends with, and so never one of these.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.columns import Mask
from sparklake.graveler.ids import CommitId
from sparklake.graveler.records import encode_record
from sparklake.graveler.varints import zigzag

_MARK = b"\0disagreement\0"
_NAME_BYTES = 32
_HEAD = zigzag(len(_MARK) + _NAME_BYTES) + _MARK


def disagreement(key: bytes, name: CommitId) -> bytes:
    """Returns the stored value that a key has after the virtual merge of a name."""
    return encode_record(key, _MARK + bytes.fromhex(name), b"")[1]


def disagreements(stored: pa.BinaryArray) -> Mask:
    """Tells which stored values say that ancestors disagree."""
    mask: Mask = pc.starts_with(stored, _HEAD).to_numpy(zero_copy_only=False)
    return mask


def is_disagreement(stored: bytes) -> bool:
    """Tells whether a stored value says that ancestors disagree."""
    return stored.startswith(_HEAD)
