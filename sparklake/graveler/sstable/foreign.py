"""Reads tables of other writers through RocksDB.

RocksDB has no reader for a bare SSTable, so a file is ingested into a database for the time that it
takes to read it.
"""

from __future__ import annotations

from typing import cast

from rocksdict import IngestExternalFileOptions, Options, Rdict

from sparklake.errors import CorruptFileError
from sparklake.graveler.records import Record
from sparklake.scratch import scratch_folder

_WRITE_BUFFER_BYTES = 64 * 1024


def read_foreign(name: str, file: bytes) -> list[Record]:
    """Returns the raw items of a table; raises CorruptFileError, naming it, when it is none."""
    with scratch_folder() as scratch:
        path = scratch / "table"
        path.write_bytes(file)
        try:
            database = Rdict(str(scratch / "database"), _options())
            try:
                database.ingest_external_file([str(path)], _moving())
                return cast("list[Record]", list(database.items()))
            finally:
                database.close()
        except Exception as error:
            # rocksdict raises bare Exceptions; anything more special is not about the bytes.
            if type(error) is not Exception:
                raise
            raise CorruptFileError(f"cannot read the table {name}: {error}") from error


def _moving() -> IngestExternalFileOptions:
    ingestion = IngestExternalFileOptions()
    ingestion.set_move_files(True)
    return ingestion


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_keep_log_file_num(1)
    return options
