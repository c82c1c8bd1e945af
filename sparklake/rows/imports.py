"""Settings, rows and errors of an import."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec
import pyarrow as pa

from sparklake.rows.objects import STAGE_SCHEMA
from sparklake.rows.results import TaskResult

IMPORT_SCHEMA = pa.schema([each for each in STAGE_SCHEMA if each.name != "deleted"])
"""`path`, `size` and `address` (a full URI) are required. A missing `checksum` is the ETag, or is
computed from the object. A missing `mtime` is the time of the import."""


@dataclass(frozen=True, slots=True)
class ImportTaskSettings:
    """Settings of an import.

    `folder` precedes every path. Rows whose path matches a glob of `exclude` are ignored.
    `imported_at`, in unix nanoseconds, is the time of objects without one. With `skips`, rows with
    errors are skipped and the others are written. All errors go to Parquet files in `errors_to`,
    and the first `reported` errors of each task to the driver.
    """

    folder: str
    imported_at: int
    skips: bool = False
    errors_to: str | None = None
    reported: int = 100
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportUpdate:
    """How imported objects change the existing ones in their folder.

    Of other existing objects, those that the source brought are removed: their address is their
    path below `place`. If the import replaces the folder, all are removed. Objects that match an
    excluded glob stay.
    """

    folder: str
    place: str | None
    replaces: bool
    exclude: tuple[str, ...] = ()


ERROR_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("address", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)
"""`path` is the destination. Text that is not UTF-8 is escaped, and long text is truncated."""


class Reason(str, Enum):
    """The reason for rejecting a row."""

    MISSING_PATH = "missing_path"
    INVALID_PATH = "invalid_path"
    MISSING_SIZE = "missing_size"
    INVALID_SIZE = "invalid_size"
    MISSING_ADDRESS = "missing_address"
    INVALID_ADDRESS = "invalid_address"
    OWN_NAMESPACE = "own_namespace"
    INVALID_MTIME = "invalid_mtime"
    INVALID_TEXT = "invalid_text"
    TOO_LARGE = "too_large"
    MISSING_OBJECT = "missing_object"
    DUPLICATE_PATH = "duplicate_path"
    CATALOG_MANAGED = "catalog_managed"
    UNSUPPORTED_TABLE = "unsupported_table"


class Defect(msgspec.Struct, frozen=True):
    """A row with an error."""

    path: str | None
    address: str | None
    size: int | None
    reason: Reason
    message: str


MAX_FIRST = 3
"""The maximum number of changed paths in messages."""


class UpdateResult(TaskResult, frozen=True, tag="update"):
    """Counts of changed objects from elsewhere, with their first paths, and retained objects."""

    others: int
    first: tuple[str, ...]
    retained: int


class ErrorsResult(TaskResult, frozen=True, tag="errors"):
    """The number of rows with errors by reason, and the first ones."""

    counts: dict[Reason, int]
    first: tuple[Defect, ...]
