"""Task bodies for the files of a Spark write: upload and checksum."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparklake.errors import MissingFileError
from sparklake.graveler.arrow_batches import with_column
from sparklake.interrupts import Threads
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.rows.settings import Workspace
from sparklake.stores.objects.addresses import HADOOP_CLIENTS
from sparklake.udfs.tasks import Batches, BatchStream, packed_rows


def checksum_body(workspace: Workspace, place: str, batches: Batches) -> BatchStream:
    """Add the checksums to rows of FILE_SCHEMA. A missing file is an error."""
    store = workspace.open_store()
    # Hashing releases the interpreter lock, so the threads of a task use all its cores.
    with Threads(name="sparklake-hash") as threads:
        for rows in packed_rows(batches):
            keys = (f"{place}/{name}" for name in rows.column("name").to_pylist())
            checksums = pa.array(threads.map(store.checksum, keys), pa.string())
            yield with_column(rows, FILE_SCHEMA.field("checksum"), checksums)


def upload_body(workspace: Workspace, folder: str, place: str, batches: Batches) -> BatchStream:
    """Upload files of a local folder to the prefix `place`, and yield their rows afterwards."""
    store = workspace.open_store()
    for rows in packed_rows(batches):
        files = {f"{place}/{name}": Path(folder, name) for name in rows.column("name").to_pylist()}
        for file in files.values():
            if not file.is_file():
                raise not_shared(f"{file} is missing")
        store.put_files_if_absent(files)
        yield rows


def not_shared(what: str) -> MissingFileError:
    """Return the error for machines without a shared local disk."""
    return MissingFileError(
        f"{what}: the Spark driver and executors do not share a disk, so files "
        f"written there cannot be staged. Add {HADOOP_CLIENTS} to Spark and write to a "
        "bucket, or put SPARKLAKE_SCRATCH or the storage namespace on a disk that all machines "
        "share"
    )
