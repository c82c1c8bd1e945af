"""RocksDB tables, and cases of block damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Layout:
    """The options of RocksDB for a table."""

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
    """Return the RocksDB table of records in key order."""
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


damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.floats(0, 1, exclude_max=True), st.floats(0.9, 1, exclude_max=True)),
        st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])),
    ),
    min_size=1,
    max_size=6,
)
