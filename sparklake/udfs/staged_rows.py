"""Encoding of staged objects and removals as records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import CollectionRunningError, InvalidRowsError
from sparklake.graveler import kernels
from sparklake.graveler.arrow_batches import is_text, with_column
from sparklake.graveler.blocks.entry_columns import EntryColumns, encode_entries
from sparklake.graveler.buffers import Mask, Positions, mask_of
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.keys import existing_key
from sparklake.graveler.records import MAX_KEY_BYTES, Record, tombstone
from sparklake.graveler.times import LAST_MICROSECOND, MICROSECOND, SECOND, SECOND_MICROS
from sparklake.rows.objects import STAGE_SCHEMA, ObjectInfo, microsecond_mtimes, object_record
from sparklake.rows.records import RECORD_SCHEMA, in_key_order, record_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import describe_store, normalise_object_uri, open_object, open_store
from sparklake.stores.objects.addresses import (
    PLAIN_PLACES,
    UNUSUAL,
    URI_START,
    canonical_addresses,
    canonical_schemes,
    may_have_uris,
    stored_addresses,
)
from sparklake.stores.objects.key_checks import check_key
from sparklake.udfs.tasks import Batches, BatchStream

_PLAIN_TEXT_BYTES = 8 * 1024
"""Rows with longer texts are checked one by one."""

_BEGINNING = rf"^({PLAIN_PLACES})/[^./\x00]"
_WHOLE = rf"^({PLAIN_PLACES})(/[^./\x00][^/\x00]*)+$"


def stage_body(
    workspace: Workspace, staged_at: int, batches: Batches, *, closed: bool = False
) -> BatchStream:
    """Encode rows of STAGE_SCHEMA as RECORD_SCHEMA, in key order if the rows are.

    `staged_at` is in unix nanoseconds. `closed` rejects addresses in the namespace.
    """
    for batch in batches:
        rows = microsecond_mtimes(staged_columns(batch))
        if closed and "address" in rows.schema.names:
            _refuse_inside(rows.column("address"), workspace.storage_namespace)
        if rows.num_rows:
            yield _staged_records(workspace, rows, staged_at)


def _staged_records(workspace: Workspace, rows: pa.RecordBatch, staged_at: int) -> pa.RecordBatch:
    plain = plain_rows(rows, workspace.storage_namespace)
    if plain.all():
        return plain_records(rows, staged_at)
    others = rows.filter(pa.array(~plain)).to_pylist()
    parts = [record_batch([staged_record(row, workspace, staged_at) for row in others])]
    if plain.any():
        parts.append(plain_records(rows.filter(pa.array(plain)), staged_at))
    return in_key_order(parts)


def _refuse_inside(addresses: pa.Array, storage_namespace: str) -> None:
    canonical = canonical_addresses(addresses)
    inside = are_keys(addresses) | mask_of(pc.starts_with(canonical, f"{storage_namespace}/"))
    if inside.any():
        raise CollectionRunningError(
            "nothing was staged: a running garbage collection may delete one of the objects. "
            "Stage them after `sparklake gc run` finishes"
        )


# --- plain rows, by columns -----------------------------------------------------------------------


def plain_rows(rows: pa.RecordBatch, storage_namespace: str) -> Mask:
    """Return a mask of complete, valid rows without metadata, except for removals."""
    if not {"path", "size", "address", "checksum"} <= set(rows.schema.names):
        return np.zeros(rows.num_rows, bool)
    # An address inside the namespace is stored relative, in any spelling.
    path, address = rows.column("path"), canonical_schemes(rows.column("address"))
    plain = plain_keys(path) & plain_addresses(address, storage_namespace)
    if describe_store(storage_namespace).is_local:  # Paths have many spellings.
        plain &= are_keys(address) | plain_uris(address)
    conditions = [
        pc.less_equal(pc.binary_length(path), MAX_KEY_BYTES),
        pc.greater_equal(rows.column("size"), 0),
        pc.greater(pc.binary_length(rows.column("checksum")), 0),
    ]
    conditions += [
        pc.less(pc.binary_length(rows.column(name)).fill_null(0), _PLAIN_TEXT_BYTES)
        for name in ("checksum", "address", "content_type")
        if name in rows.schema.names
    ]
    if "deleted" in rows.schema.names:
        conditions.append(pc.invert(rows.column("deleted").fill_null(False)))
    if "mtime" in rows.schema.names:
        mtime = rows.column("mtime").fill_null(SECOND_MICROS)
        conditions += [
            pc.greater_equal(mtime, SECOND_MICROS),
            pc.less_equal(mtime, LAST_MICROSECOND),
        ]
    if "metadata" in rows.schema.names:
        conditions.append(_is_empty(rows.column("metadata")))
    for each in conditions:
        plain &= mask_of(each)
    return plain


@kernels.defines(kernels.plain_keys)
def plain_keys(texts: pa.StringArray) -> Mask:
    """Return a mask of strings without NUL, a leading '/', or a part with a leading '.'."""
    return mask_of(_are_plain_keys(texts))


@kernels.defines(kernels.plain_addresses)
def plain_addresses(addresses: pa.StringArray, storage_namespace: str) -> Mask:
    """Return a mask of plain keys, and of URIs with a valid start outside a namespace."""
    plain = pc.if_else(
        pc.match_substring(addresses, "://"),
        pc.and_not(
            _are_plain_uris(addresses, _BEGINNING), pc.starts_with(addresses, storage_namespace)
        ),
        pc.and_(
            _are_plain_keys(addresses),
            pc.invert(pc.match_substring_regex(addresses, URI_START.pattern)),
        ),
    )
    return mask_of(plain)


@kernels.defines(kernels.plain_uris)
def plain_uris(addresses: pa.StringArray) -> Mask:
    """Return a mask of URIs without NUL, empty parts or parts with a leading '.'."""
    return mask_of(_are_plain_uris(addresses, _WHOLE))


def _are_plain_uris(addresses: pa.StringArray, pattern: str) -> pa.BooleanArray:
    return pc.and_not(
        pc.match_substring_regex(addresses, pattern), pc.match_substring_regex(addresses, UNUSUAL)
    )


def _are_plain_keys(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.and_(
        pc.match_substring_regex(texts, r"^[^./\x00]"),
        pc.invert(pc.match_substring_regex(texts, r"/\.|\x00")),
    )


def are_keys(addresses: pa.StringArray) -> Mask:
    if not may_have_uris(addresses):
        return np.ones(len(addresses), bool)
    return mask_of(pc.invert(pc.match_substring(addresses, "://")))


def _is_empty(maps: pa.Array) -> pa.BooleanArray:
    if pa.types.is_null(maps.type):
        return pa.repeat(True, len(maps))
    return pa.array(np.diff(maps.offsets.to_numpy()) == 0)


def plain_records(
    rows: pa.RecordBatch, staged_at: int, default_type: str = DEFAULT_CONTENT_TYPE
) -> pa.RecordBatch:
    """Encode plain rows. `default_type` replaces a missing content type."""
    address = rows.column("address")
    seconds, nanos = _plain_mtimes(rows, staged_at)
    if "content_type" in rows.schema.names:
        content_type = rows.column("content_type").fill_null(default_type)
    else:
        content_type = pa.repeat(default_type, rows.num_rows)
    entries = EntryColumns(
        address=stored_addresses(address),
        size=rows.column("size").to_numpy(zero_copy_only=False),
        checksum=rows.column("checksum"),
        seconds=seconds,
        nanos=nanos,
        content_type=content_type,
        relative=are_keys(address),
    )
    keys = rows.column("path").cast(pa.binary())
    return pa.record_batch([keys, encode_entries(keys, entries)], schema=RECORD_SCHEMA)


def _plain_mtimes(rows: pa.RecordBatch, staged_at: int) -> tuple[Positions, Positions]:
    """Return seconds, and the nanoseconds within the second."""
    second, nano = divmod(staged_at, SECOND)
    if "mtime" not in rows.schema.names:
        return np.full(rows.num_rows, second), np.full(rows.num_rows, nano)
    micros = rows.column("mtime").fill_null(-1).to_numpy(zero_copy_only=False)
    seconds, fraction = np.divmod(micros, SECOND_MICROS)
    missing = micros < 0
    return np.where(missing, second, seconds), np.where(missing, nano, fraction * MICROSECOND)


# --- one row at a time ----------------------------------------------------------------------------


def staged_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast a batch to the types of STAGE_SCHEMA, except for mtimes."""
    for index, name in enumerate(batch.schema.names):
        column, kind = batch.column(index), STAGE_SCHEMA.field(name).type
        if not _is_like(column.type, kind):
            raise InvalidRowsError(f"the column {name} is {column.type}; it must be {kind}")
        if column.type != kind and not pa.types.is_timestamp(kind):
            try:
                batch = with_column(batch, name, column.cast(kind))
            except pa.ArrowInvalid as error:
                raise InvalidRowsError(f"the column {name}: {error}") from error
    return batch


def _is_like(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types differ only in width or encoding."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return _is_like(kind.key_type, pa.string()) and _is_like(kind.item_type, pa.string())
    tests = (is_text, pa.types.is_integer, pa.types.is_boolean, pa.types.is_timestamp)
    return pa.types.is_null(kind) or any(each(kind) and each(other) for each in tests)


def staged_record(
    row: dict[str, Any],
    workspace: Workspace,
    staged_at: int,
    default_type: str = DEFAULT_CONTENT_TYPE,
) -> Record:
    """Check and encode one row of STAGE_SCHEMA."""
    path = row.get("path")
    if path is None:
        raise InvalidRowsError("a row to stage has no path")
    if row.get("deleted"):
        return tombstone(existing_key(path))
    for name in ("size", "address"):
        if row.get(name) is None:
            raise InvalidRowsError(f"the row of {path!r} has no {name}; every row needs one")
    if "://" in row["address"]:
        normalise_object_uri(row["address"])
    elif URI_START.match(row["address"]):
        raise InvalidRowsError(
            f"the address of {path!r} is {row['address']!r}: write file:///path or "
            "s3://bucket/key, or a key in the storage namespace"
        )
    else:
        check_key(row["address"])
    mtime, kind = row.get("mtime"), row.get("content_type")
    each = ObjectInfo(
        path=path,
        size=row["size"],
        checksum=row.get("checksum") or object_checksum(workspace, row["address"]),
        mtime=staged_at if mtime is None else mtime * MICROSECOND,
        address=row["address"],
        metadata=_staged_metadata(row),
        content_type=default_type if kind is None else kind,
    )
    return object_record(each, workspace.storage_namespace)


def _staged_metadata(row: dict[str, Any]) -> dict[str, str]:
    metadata = dict(row.get("metadata") or {})
    for key, value in metadata.items():
        if value is None:
            raise InvalidRowsError(f"the metadata of {row['path']!r} has no value for {key!r}")
    return metadata


def object_checksum(workspace: Workspace, address: str) -> str:
    if "://" not in address:
        return open_store(workspace.storage_namespace).checksum(address)
    store, key = open_object(address)
    return store.checksum(key)
