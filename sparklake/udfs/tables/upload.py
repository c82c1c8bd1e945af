"""The task body that uploads files which Spark has written to local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.errors import MissingFileError
from sparklake.udfs.tables.checksums import share_rows
from sparklake.udfs.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa


def upload_body(
    workspace: Workspace, folder: str, place: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Upload files of a folder to the prefix `place`, and yield their rows afterwards.

    Files are streamed from disk. A file that an earlier attempt uploaded is identical.

    Raises:
        MissingFileError: This machine does not see the folder of the driver.
    """
    store = workspace.open_store()
    for rows in share_rows(batches):
        files = {f"{place}/{name}": Path(folder, name) for name in rows.column("name").to_pylist()}
        for file in files.values():
            if not file.is_file():
                raise not_shared(f"{file} is missing")
        store.put_files_if_absent(files)
        yield rows


def not_shared(what: str) -> MissingFileError:
    """Return the error for machines that do not share a local disk."""
    return MissingFileError(
        f"{what}: the driver and the executors of Spark do not see the same disk, so files "
        "written there cannot be staged. Add the S3 client S3A (hadoop-aws) to Spark and "
        "write to a bucket, or put SPARKLAKE_SCRATCH or the storage namespace on a disk that "
        "all machines share"
    )
