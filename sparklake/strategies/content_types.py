"""Entries of equal content type, stored in two ways. See docs/design/045."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from sparklake.errors import CorruptFileError
from sparklake.graveler.algebra.changes import BlockChanges, Conflict
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.entry_columns import EntryColumns, decode_entries
from sparklake.graveler.buffers import Mask, mask_of
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.entries import Entry, record_entry

_STORED_TYPE = DEFAULT_CONTENT_TYPE.encode()


def is_same_content(conflict: Conflict) -> bool:
    """Return whether source and dest differ only in the stored default content type."""
    source, dest = conflict.source, conflict.dest
    # This test is cheap, and fails for nearly all conflicts.
    if source is None or dest is None or (_STORED_TYPE in source) == (_STORED_TYPE in dest):
        return False
    try:
        one, other = (record_entry((conflict.key, each)) for each in (source, dest))
    except CorruptFileError:
        return False  # Not records of objects.
    types = {one.content_type, other.content_type}
    return _untyped(one) == _untyped(other) and types == {"", DEFAULT_CONTENT_TYPE}


def _untyped(entry: Entry) -> tuple[int, str, dict[str, str]]:
    return entry.size, entry.checksum, dict(entry.metadata)


def without_same_content(changes: BlockChanges) -> BlockChanges:
    """Drop conflicts between entries of the same content, and keep dest's entry."""
    rows = np.flatnonzero(changes.conflicts)
    if not len(rows):
        return changes
    contested = changes.where(changes.conflicts)
    same = [isinstance(each, Conflict) and is_same_content(each) for each in contested]
    stays = np.ones(len(changes), bool)
    stays[rows] = ~np.array(same, bool)
    return changes if stays.all() else changes.where(stays)


def same_content(left: Block, right: Block) -> Mask:
    """Return the mask of records that differ only in the stored default content type."""
    before, after = decode_entries(left), decode_entries(right)
    same: Mask = before.size == after.size
    same &= mask_of(pc.equal(before.checksum, after.checksum))
    same &= _has_default(before) & _has_default(after)
    same &= mask_of(pc.not_equal(before.content_type, after.content_type))
    if before.metadata is not None or after.metadata is not None:
        pairs = zip(_metadata(before), _metadata(after), strict=True)
        same &= np.array([one == other for one, other in pairs], bool)
    return same


def _has_default(entries: EntryColumns) -> Mask:
    return mask_of(
        pc.or_(
            pc.equal(entries.content_type, ""), pc.equal(entries.content_type, DEFAULT_CONTENT_TYPE)
        )
    )


def _metadata(entries: EntryColumns) -> list[dict[str, str]]:
    if entries.metadata is None:
        return [{} for _ in entries.size]
    return [dict(each) for each in entries.metadata.to_pylist()]
