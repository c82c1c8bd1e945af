"""Reads tables of our own layout into blocks, many at a time, by columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparklake.graveler.blocks import EMPTY, Block, block_of_entries
from sparklake.graveler.columns import binary_array
from sparklake.graveler.sstable.layout import (
    NotOurLayoutError,
    data_handles,
    entries_end,
    opened,
)


def read_tables(files: Sequence[bytes]) -> tuple[Block, list[int]] | None:
    """Returns the records of tables, whose keys follow each other, and how many each one has.

    None when one of them is damaged, or was laid out by another writer. That of an entry in
    another form is seen by its record id, which is not where one of ours has it.
    """
    contents: list[memoryview] = []
    starts: list[np.ndarray] = []
    counts: list[int] = []
    size = 0
    try:
        for file in files:
            view, count = memoryview(file), 0
            for handle in data_handles(view):
                content = opened(view, handle)
                end, entries = entries_end(content)
                starts.append(size + np.frombuffer(content, "<u4", entries, end).astype(np.int64))
                contents.append(memoryview(content)[:end])
                size, count = size + end, count + entries
            counts.append(count)
    except (NotOurLayoutError, ValueError):
        # ValueError: a block that is too short for the entries that it claims to have.
        return None
    if not starts:
        return EMPTY, counts
    bounds = np.append(np.concatenate(starts), size)
    if bounds[0] != 0 or (np.diff(bounds) <= 0).any():
        return None
    return block_of_entries(binary_array(bounds, b"".join(contents))), counts
