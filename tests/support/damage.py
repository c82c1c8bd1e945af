"""Tables of RocksDB and sparklake with damaged blocks and repaired checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
from hypothesis import strategies as st
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    ChecksumType,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    SstFileWriter,
)

from sparklake.graveler.records import Record
from sparklake.graveler.sstable import foreign, layout
from sparklake.graveler.sstable.layout import FOOTER_BYTES, Handle


@dataclass(frozen=True)
class Layout:
    """The options that RocksDB writes a table with."""

    compression: str = "snappy"
    index: str = "binary_search"
    block_bytes: int = 4096
    restart_interval: int = 16
    metadata_bytes: int = 4096
    bloom_filter: bool = False
    format_version: int = 2
    checksum: str = "crc32c"
    data_index: str = "binary_search"


layouts = st.builds(
    Layout,
    compression=st.sampled_from(["none", "snappy", "zstd"]),
    index=st.sampled_from(["binary_search", "two_level_index_search"]),
    block_bytes=st.sampled_from([1, 64, 1024, 32768]),
    restart_interval=st.integers(1, 20),
    metadata_bytes=st.sampled_from([1, 64, 4096]),
    bloom_filter=st.booleans(),
)


def rocksdb_table(path: Path, records: Sequence[Record], form: Layout) -> bytes:
    """Return the table that RocksDB writes from records in key order."""
    blocks = BlockBasedOptions()
    blocks.set_format_version(form.format_version)
    blocks.set_checksum_type(getattr(ChecksumType, form.checksum)())
    blocks.set_block_size(form.block_bytes)
    blocks.set_block_restart_interval(form.restart_interval)
    blocks.set_metadata_block_size(form.metadata_bytes)
    blocks.set_index_type(getattr(BlockBasedIndexType, form.index)())
    blocks.set_data_block_index_type(getattr(DataBlockIndexType, form.data_index)())
    if form.bloom_filter:
        blocks.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.set_compression_type(getattr(DBCompressionType, form.compression)())
    options.set_block_based_table_factory(blocks)
    writer = SstFileWriter(options)
    writer.open(str(path))
    for key, value in records:
        writer[key] = value
    writer.finish()
    return path.read_bytes()


def block_handles(file: bytes) -> list[Handle]:
    """Return the handles of all blocks of a sound table."""
    handles = layout.meta_blocks(file)
    index = handles[b""]
    meta_index, _ = layout.read_handle(file[-FOOTER_BYTES:], 1)
    found = layout.properties(file)
    data = list(foreign._data_handles(file, index, found))
    parts = [] if found.get(foreign._INDEX_TYPE, bytes(4))[0] == 0 else [*_parts(file, index)]
    return [*data, *parts, *handles.values(), meta_index]


def _parts(file: bytes, index: Handle) -> Iterator[Handle]:
    return foreign._handles_in(file, index)


def with_block(file: bytes, handle: Handle, content: bytes) -> bytes:
    """Return a file with one block and its compression type replaced by bytes of the same length.

    The checksum is that of the new bytes.
    """
    assert len(content) == handle.size + 1
    checksum = layout._masked(google_crc32c.value(content)).to_bytes(4, "little")
    end = handle.offset + handle.size + layout.TRAILER_BYTES
    return file[: handle.offset] + content + checksum + file[end:]


Damage = tuple[float, float, int]
"""Which block, where in it, and what its byte becomes: fractions, and a byte."""

damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.floats(0, 1, exclude_max=True), st.floats(0.9, 1, exclude_max=True)),
        st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])),
    ),
    min_size=1,
    max_size=6,
)


def damaged(file: bytes, handles: Sequence[Handle], damage: Sequence[Damage]) -> bytes:
    """Return a table with some bytes of its blocks replaced, and their checksums repaired."""
    for which, where, byte in damage:
        handle = handles[int(which * len(handles))]
        block = bytearray(file[handle.offset : handle.offset + handle.size + 1])
        block[int(where * len(block))] = byte
        file = with_block(file, handle, bytes(block))
    return file
