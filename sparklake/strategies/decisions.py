"""Input and results of a strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from sparklake.errors import InvalidKeyError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import key_path
from sparklake.graveler.times import shown_microseconds
from sparklake.stores.objects.addresses import shown_address
from sparklake.strategies.object_access import NewObject, Objects

ENTRY_TYPE = pa.struct(
    [
        pa.field("address", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("mtime", pa.timestamp("us", tz="UTC")),
        pa.field("metadata", pa.map_(pa.string(), pa.string())),
        pa.field("content_type", pa.string()),
    ]
)
"""`address` is a full URI. `size` is in bytes."""

CONFLICT_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("path", pa.string()),
        *(pa.field(side, ENTRY_TYPE) for side in ("base", "source", "dest")),
    ]
)
"""A side is null if it has no object. `path` is null if the key is not UTF-8."""


class Take(str, Enum):
    """A named decision. Selecting a side without an object deletes the key."""

    BASE = "base"
    SOURCE = "source"
    DEST = "dest"
    DELETE = "delete"
    CONFLICT = "conflict"
    """The conflict stays: the merge stops and lists it."""


@dataclass(frozen=True, slots=True)
class Both:
    """Keep dest's object in place, and source's under another path, numbered if it exists."""

    path: str | bytes


Decision = Take | str | NewObject | Both
"""The decision for one key. A string is the value of a Take."""

Function = Callable[[pa.RecordBatch, Objects], "Sequence[Decision] | pa.Array"]
"""A function that returns a decision for each row of a batch of CONFLICT_SCHEMA."""


def conflict_batch(conflicts: Sequence[Conflict], storage_namespace: str) -> pa.RecordBatch:
    """Return conflicts as a batch of CONFLICT_SCHEMA."""
    columns = [
        pa.array([each.key for each in conflicts], pa.binary()),
        pa.array([find_path(each.key) for each in conflicts], pa.string()),
    ]
    for side in ("base", "source", "dest"):
        values = [(each.key, getattr(each, side)) for each in conflicts]
        rows = [
            None if stored is None else _row((key, stored), storage_namespace)
            for key, stored in values
        ]
        columns.append(pa.array(rows, ENTRY_TYPE))
    return pa.record_batch(columns, schema=CONFLICT_SCHEMA)


def find_path(key: bytes) -> str | None:
    """Return the path of a key, or None if it is not UTF-8."""
    try:
        return key_path(key)
    except InvalidKeyError:
        return None


def _row(record: tuple[bytes, bytes], storage_namespace: str) -> dict[str, Any]:
    entry = record_entry(record)
    inside = f"{storage_namespace}/{entry.address}"
    return {
        "address": inside if entry.is_relative else shown_address(entry.address),
        "size": entry.size,
        "checksum": entry.checksum,
        "mtime": shown_microseconds(entry.mtime),
        "metadata": sorted(entry.metadata.items()),
        "content_type": entry.content_type,
    }
