"""Verification of whole tables: their records, and the directory, index and properties."""

from __future__ import annotations

import struct
from typing import cast

import numpy as np

from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.blocks.verification import id_problem, key_problem, record_problem
from sparklake.graveler.buffers import offsets_of
from sparklake.graveler.ranges import RangeList
from sparklake.graveler.sstable import layout
from sparklake.graveler.sstable.directory import BlockColumn, describe_blocks, index_content
from sparklake.graveler.sstable.reader import DataBlocks
from sparklake.graveler.sstable.writer import FIXED_PROPERTIES, own_properties

_PLACE_BYTES = 4
_PLACES = [BlockColumn.OFFSET, BlockColumn.SIZE]


def range_problem(block: Block) -> str:
    """Describe the fault in a range's records, or return ""."""
    return record_problem(block, block.encoded) or key_problem(block.encoded)


def tree_problem(block: Block) -> str:
    """Describe the fault in a metarange's records, or return ""."""
    try:
        problem = id_problem(block, block.encoded)
        if not problem:
            tuple(RangeList(block))  # decodes all of them
    except SparklakeError as error:
        return str(error)
    return problem


def layout_problem(block: Block) -> str:
    """Describe the fault in a file besides its records, or return "".

    A wrong directory hides records from lookups, and a wrong index from other readers. The block
    must be unmodified. All its records are opened.
    """
    if not len(block) or isinstance(block.units[0], EncodedRecords):
        return ""
    blocks, stops = cast("DataBlocks", block.units[0]), block.starts[1:].copy()
    if not _is_described(blocks, block.encoded, stops):
        return "its directory does not describe its records"
    try:
        problem = _index_problem(blocks)
    except (layout.NotOurLayoutError, LookupError, struct.error):
        problem = "its properties cannot be read"
    return problem


def _is_described(blocks: DataBlocks, records: EncodedRecords, stops: np.ndarray) -> bool:
    numbers, first_keys, last_keys = describe_blocks(
        records, np.concatenate(([0], stops[:-1])), stops
    )
    bounds = offsets_of(records.entries).astype(np.int64)
    numbers[_PLACES] = blocks.numbers[_PLACES]
    raw = np.diff(bounds[np.concatenate(([0], stops))])
    numbers[BlockColumn.RAW_SIZE] = raw + _PLACE_BYTES * (blocks.counts + 1)
    return np.array_equal(numbers, blocks.numbers) and (first_keys, last_keys) == (
        blocks.first_keys,
        blocks.last_keys,
    )


def _index_problem(blocks: DataBlocks) -> str:
    file, directory = blocks.table.file, blocks.table.directory
    handles = layout.meta_blocks(file)
    index = handles[b""]
    if bytes(layout.opened(file, index)) != index_content(directory):
        return "its index does not describe its data blocks"
    properties = dict(layout.block_items(layout.opened(file, handles[layout.PROPERTIES])))
    own = own_properties(directory, index.offset, index)
    if not {**FIXED_PROPERTIES, **own}.items() <= properties.items():
        return "its properties do not describe its records"
    return ""
