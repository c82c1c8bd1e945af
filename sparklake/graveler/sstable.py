"""SSTables: written and read through RocksDB.

format_version 2, crc32c, Snappy and 32 KiB blocks: what RocksDB, its JNI reader and lakeFS's pebble
all read. RocksDB has no reader for a bare SSTable, so files are ingested into a database that lives
as long as they are open.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from rocksdict import (
    BlockBasedOptions,
    ChecksumType,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
)

from sparklake.errors import CorruptFileError
from sparklake.graveler.records import Record

BLOCK_BYTES = 32 * 1024

_WRITE_BUFFER_BYTES = 64 * 1024


def write_table(path: Path, records: Iterable[Record]) -> None:
    """Writes records, at least one and in strictly ascending key order, as one SSTable."""
    writer = SstFileWriter(_options())
    writer.open(str(path))
    for key, stored in records:
        writer[key] = stored
    writer.finish()


@contextmanager
def open_tables(paths: Sequence[Path], scratch: Path) -> Iterator[Iterator[Record]]:
    """Opens SSTables with disjoint keys as one stream of raw items in key order.

    The files are moved away from `paths`, which must lie in `scratch`: give links or copies. Raises
    CorruptFileError when a file is no table or cannot be read.
    """
    home = Path(tempfile.mkdtemp(prefix="tables-", dir=scratch))
    try:
        with _corruption_named(paths):
            database = Rdict(str(home), _options())
            try:
                database.ingest_external_file([str(path) for path in paths], _moving())
                yield cast("Iterator[Record]", database.items())
            finally:
                database.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _corruption_named(paths: Sequence[Path]) -> Iterator[None]:
    """Turns what RocksDB says of bad bytes into an error that names the files."""
    try:
        yield
    except Exception as error:
        # rocksdict raises bare Exceptions; anything more special is the caller's.
        if type(error) is not Exception:
            raise
        names = ", ".join(path.name for path in paths)
        raise CorruptFileError(f"cannot read the table {names}: {error}") from error


def _moving() -> IngestExternalFileOptions:
    ingestion = IngestExternalFileOptions()
    ingestion.set_move_files(True)
    return ingestion


def _options() -> Options:
    blocks = BlockBasedOptions()
    blocks.set_format_version(2)
    blocks.set_checksum_type(ChecksumType.crc32c())
    blocks.set_block_size(BLOCK_BYTES)
    blocks.disable_cache()
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.snappy())
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_keep_log_file_num(1)
    return options
