"""Objects as rows, and rows as staged records."""

from __future__ import annotations

import datetime as dt
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklake.errors import InvalidKeyError, InvalidRowsError, InvalidUriError, MissingFileError
from sparklake.graveler.blocks.block import EMPTY, block_of_records
from sparklake.graveler.entries import AddressType, Entry, entry_record, record_entry
from sparklake.graveler.records import Record, is_tombstone
from sparklake.rows.objects import (
    OBJECT_SCHEMA,
    STAGE_SCHEMA,
    ObjectInfo,
    object_batch,
    object_info,
    object_record,
    object_rows,
)
from sparklake.rows.settings import Workspace
from sparklake.udfs.staged_rows import stage_body, staged_record
from tests.support.cases import for_each

NAMESPACE = "s3://bucket/lake"
STAGED_AT = 1_700_000_000_000_000_000
WORKSPACE = Workspace(NAMESPACE, 4)

FULL = ObjectInfo(
    path="a/ž ✓.csv",
    size=12,
    checksum="abc",
    mtime=1_600_000_000_123_456_000,
    address="s3://elsewhere/a.csv",
    metadata={"k": "v", "a": "b"},
    content_type="text/csv",
)
OBJECTS = [
    FULL,
    ObjectInfo("b", 0, "", 0, f"{NAMESPACE}/data/b"),
    ObjectInfo("c", (1 << 63) - 1, "x", 1000, "file:///c d?#%20"),
]


def test_objects_round_trip_as_rows() -> None:
    block = block_of_records([object_record(each, NAMESPACE) for each in OBJECTS])
    batch = object_batch(block, NAMESPACE)
    assert batch.schema == OBJECT_SCHEMA
    assert list(object_rows(batch)) == OBJECTS
    assert object_batch(EMPTY, NAMESPACE).num_rows == 0


@pytest.mark.parametrize("each", OBJECTS, ids=lambda each: each.path)
def test_objects_round_trip_as_records(each: ObjectInfo) -> None:
    assert object_info(object_record(each, NAMESPACE), NAMESPACE) == each


@pytest.mark.parametrize(
    ("address", "stored", "kind"),
    [
        (f"{NAMESPACE}/data/a", "data/a", AddressType.RELATIVE),
        ("data/a", "data/a", AddressType.RELATIVE),
        ("s3://bucket/lake-2/a", "s3://bucket/lake-2/a", AddressType.FULL),
        ("s3://bucket/other/a", "s3://bucket/other/a", AddressType.FULL),
        ("file:///a", "local:///a", AddressType.FULL),
        ("file://localhost/a/./b//c", "local:///a/b/c", AddressType.FULL),
        ("local:///a", "local:///a", AddressType.FULL),
        ("s3a://bucket/a", "s3://bucket/a", AddressType.FULL),
    ],
)
def test_addresses_in_the_namespace_are_stored_as_relative(
    address: str, stored: str, kind: AddressType
) -> None:
    entry = record_entry(object_record(ObjectInfo("a", 1, "", 0, address), NAMESPACE))
    assert (entry.address, entry.address_type) == (stored, kind)


def test_a_deprecated_address_type_is_read() -> None:
    entry = Entry("data/a", 1, "", 0, address_type=AddressType.BY_PREFIX_DEPRECATED)
    assert object_info(entry_record("a", entry), NAMESPACE).address == f"{NAMESPACE}/data/a"


# --- staging --------------------------------------------------------------------------------------


def staged(rows: list[dict[str, Any]], schema: pa.Schema = STAGE_SCHEMA) -> list[Record]:
    batches = stage_body(WORKSPACE, STAGED_AT, [pa.RecordBatch.from_pylist(rows, schema=schema)])
    return [(row["key"], row["stored"]) for batch in batches for row in batch.to_pylist()]


MINIMAL = {"path": "a", "size": 1, "checksum": "sum", "address": "s3://bucket/a"}


def test_a_complete_row_is_staged() -> None:
    row = {
        "path": FULL.path,
        "size": FULL.size,
        "checksum": FULL.checksum,
        "mtime": dt.datetime.fromtimestamp(1_600_000_000, dt.timezone.utc).replace(
            microsecond=123_456
        ),
        "address": FULL.address,
        "metadata": [("k", "v"), ("a", "b")],
        "content_type": FULL.content_type,
    }
    assert staged([row]) == [object_record(FULL, NAMESPACE)]


def test_missing_columns_have_defaults() -> None:
    expected = [object_record(ObjectInfo("a", 1, "sum", STAGED_AT, "s3://bucket/a"), NAMESPACE)]
    assert staged([MINIMAL]) == expected
    names = [*MINIMAL]
    assert staged([MINIMAL], pa.schema([STAGE_SCHEMA.field(name) for name in names])) == expected


AZURE = "https://acct.blob.core.windows.net/con"
SPELLINGS = {
    NAMESPACE: ["s3://bucket/lake", "s3a://bucket/lake", "S3A://bucket/lake"],
    f"{AZURE}/lake": [
        f"{AZURE}/lake",
        "https://acct.dfs.core.windows.net/con/lake",
        "az://con/lake",
        *(
            f"{scheme}://con@acct.{api}.core.windows.net/lake"
            for scheme in ("abfs", "abfss", "wasb", "wasbs")
            for api in ("blob", "dfs")
        ),
    ],
    "gs://bucket/lake": ["gs://bucket/lake", "GS://bucket/lake"],
    "file:///srv/lake": [
        "file:///srv/lake",
        "local:///srv/lake",
        "file://localhost/srv/lake",
        "file:///srv//lake",
        "file:///srv/./lake",
        "file:///srv/old/../lake",
    ],
}


@for_each("key", ["data/a", "-2/a", "data/a b%20c", "data/a&b", "data/x//y"])
@for_each(
    ("namespace", "root"), [(each, root) for each, roots in SPELLINGS.items() for root in roots]
)
def test_columns_and_rows_store_equal_addresses(
    monkeypatch: pytest.MonkeyPatch, namespace: str, root: str, key: str
) -> None:
    """In every spelling: relative inside the namespace, canonical outside."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
    workspace = Workspace(namespace, 4)
    inside = key.startswith("data/")
    row = {**MINIMAL, "address": f"{root}/{key}" if inside else f"{root}{key}"}
    schema = pa.schema([STAGE_SCHEMA.field(name) for name in MINIMAL])
    (batch,) = stage_body(workspace, STAGED_AT, [pa.RecordBatch.from_pylist([row], schema=schema)])
    assert batch.to_pylist() == [
        dict(zip(("key", "stored"), staged_record(row, workspace, STAGED_AT), strict=True))
    ]
    entry = record_entry((b"a", batch.column("stored")[0].as_py()))
    expected = AddressType.RELATIVE if inside else AddressType.FULL
    assert entry.address_type is expected
    if inside and "//" not in key:
        assert entry.address == key


def test_an_unsupported_scheme_is_rejected_in_columns_and_rows() -> None:
    row = {**MINIMAL, "address": "s3n://bucket/lake/data/a"}
    for stage in (lambda: staged([row]), lambda: staged_record(row, WORKSPACE, STAGED_AT)):
        with pytest.raises(InvalidUriError, match="s3n"):
            stage()


def test_a_deleted_row_is_a_tombstone() -> None:
    ((key, stored),) = staged([{"path": "a", "deleted": True}])
    assert key == b"a"
    assert is_tombstone(stored)
    assert not is_tombstone(staged([{**MINIMAL, "deleted": False}])[0][1])


@for_each("unit", ["s", "ms", "us", "ns"])
@for_each("zone", [None, "UTC", "Europe/Prague"])
def test_an_mtime_of_any_unit_is_staged(unit: str, zone: str | None) -> None:
    kind = pa.timestamp(unit, tz=zone)
    moment = pa.array([1_600_000_000], pa.int64()).cast(pa.timestamp("s", tz=zone)).cast(kind)
    batch = pa.RecordBatch.from_arrays(
        [*(pa.array([each]) for each in MINIMAL.values()), moment], names=[*MINIMAL, "mtime"]
    )
    (stored,) = next(stage_body(WORKSPACE, STAGED_AT, [batch])).column("stored").to_pylist()
    assert record_entry((b"a", stored)).mtime == 1_600_000_000 * 10**9


@for_each(
    ("change", "error", "reason"),
    [
        ({"path": None}, InvalidRowsError, "no path"),
        ({"size": None}, InvalidRowsError, "'a' has no size"),
        ({"address": None}, InvalidRowsError, "'a' has no address"),
        ({"size": -1}, InvalidRowsError, "size of 'a'"),
        ({"path": ""}, InvalidKeyError, "empty"),
        ({"path": "../a"}, InvalidKeyError, "root"),
        ({"path": "k" * 1025}, InvalidKeyError, "1025 bytes"),
        ({"path": "", "deleted": True}, InvalidKeyError, "empty"),
        ({"metadata": [("k", None)]}, InvalidRowsError, "'a' has no value for 'k'"),
        ({"metadata": [("k", "v" * 70_000)]}, InvalidRowsError, "at most 65536"),
    ],
)
def test_an_invalid_row_is_rejected(
    change: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        staged([{**MINIMAL, **change}])


def test_mtimes_must_be_timestamps() -> None:
    batch = pa.RecordBatch.from_pylist([{**MINIMAL, "mtime": "yesterday"}])
    with pytest.raises(InvalidRowsError, match="mtime is string"):
        list(stage_body(WORKSPACE, STAGED_AT, [batch]))


def test_a_missing_checksum_is_computed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"content")
    workspace = Workspace(f"file://{tmp_path}", 4)
    for address in ("data/a", f"file://{tmp_path}/data/a"):
        row = {"path": "a", "size": 7, "address": address}
        (batch,) = stage_body(workspace, STAGED_AT, [pa.RecordBatch.from_pylist([row])])
        stored = batch.column("stored")[0].as_py()
        assert record_entry((b"a", stored)).checksum == md5(b"content").hexdigest()
    batch = pa.RecordBatch.from_pylist([{**row, "address": f"file://{tmp_path}/gone"}])
    with pytest.raises(MissingFileError, match="gone"):
        list(stage_body(workspace, STAGED_AT, [batch]))
