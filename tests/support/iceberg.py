"""Iceberg tables written by hand, with features that pyiceberg lacks, such as deletion vectors."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.metadata.vectors.bitmaps import encode_bitmap, positions

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "name", "required": False, "type": "string"},
]
DELETE_COLUMNS = (2147483546, 2147483545)
"""The field ids of the columns of position deletes: the path, and the position."""


def field(name: str, number: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": number}
    return {"name": name, "type": kind, "field-id": number}


def pairs(name: str, number: int, kind: str) -> dict[str, Any]:
    names = [field("key", 1000 + number, "int"), field("value", 2000 + number, kind)]
    record = {"type": "record", "name": f"k{number}", "fields": names}
    array = {"type": "array", "logicalType": "map", "items": record}
    return field(name, number, array, optional=True)


def data_file_schema(version: int) -> dict[str, Any]:
    fields = [
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, {"type": "record", "name": "r102", "fields": []}),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
        pairs("null_value_counts", 110, "long"),
        pairs("lower_bounds", 125, "bytes"),
        pairs("upper_bounds", 128, "bytes"),
        field("key_metadata", 131, "bytes", optional=True),
    ]
    if version == 1:
        fields.append(field("block_size_in_bytes", 105, "long"))
    else:
        fields.append(field("content", 134, "int"))
    if version == 3:
        fields += [
            field("referenced_data_file", 143, "string", optional=True),
            field("content_offset", 144, "long", optional=True),
            field("content_size_in_bytes", 145, "long", optional=True),
            field("first_row_id", 142, "long", optional=True),
        ]
    return {"type": "record", "name": "r2", "fields": fields}


def avro(name: str, fields: Sequence[Any], rows: Sequence[Any], codec: str = "deflate") -> bytes:
    body = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": name, "fields": list(fields)})
    fastavro.writer(body, schema, rows, codec=codec)
    return body.getvalue()


def manifest(
    version: int, files: Sequence[Mapping[str, Any]], codec: str = "deflate", snapshot: int = 1
) -> bytes:
    """Write a manifest of added files, with inherited sequence numbers."""
    fields = [field("status", 0, "int"), field("snapshot_id", 1, "long", optional=True)]
    if version > 1:
        fields.append(field("sequence_number", 3, "long", optional=True))
        fields.append(field("file_sequence_number", 4, "long", optional=True))
    fields.append(field("data_file", 2, data_file_schema(version)))
    rows = [
        {"status": 1, "snapshot_id": snapshot, "sequence_number": None, "data_file": each}
        for each in files
    ]
    return avro("manifest_entry", fields, rows, codec)


def manifest_list(version: int, manifests: Sequence[Mapping[str, Any]]) -> bytes:
    fields = [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("partition_spec_id", 502, "int"),
        field("added_snapshot_id", 503, "long"),
    ]
    if version > 1:
        fields += [field("content", 517, "int"), field("sequence_number", 515, "long")]
        fields += [
            field(name, number, "int" if name.endswith("files_count") else "long")
            for name, number in COUNTS.items()
        ]
    if version > 2:
        fields.append(field("first_row_id", 520, "long", optional=True))
    return avro(
        "manifest_file", fields, [{**dict.fromkeys(COUNTS, 0), **each} for each in manifests]
    )


COUNTS = {
    "min_sequence_number": 516,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
}


class HandTable:
    """A table in a folder. Each commit adds files, and is a snapshot with its number as id."""

    def __init__(self, folder: Path, version: int, fields: Sequence[Any] = FIELDS) -> None:
        self.folder, self.version, self.fields = folder, version, fields
        self.snapshots: list[dict[str, Any]] = []
        self._manifests: list[dict[str, Any]] = []
        (folder / "metadata").mkdir(parents=True)
        self.write()

    @property
    def location(self) -> str:
        return f"file://{self.folder}"

    def continued(self, folder: Path) -> HandTable:
        """Return the same table with another folder for its next files."""
        table = copy(self)
        table.folder = folder
        table.snapshots, table._manifests = [*self.snapshots], [*self._manifests]
        return table

    def data(self, name: str, *ids: int, **fields: Any) -> dict[str, Any]:
        """Write a data file with ids and their texts as names."""
        table = pa.table({"id": pa.array(ids, pa.int64()), "name": [str(each) for each in ids]})
        schema = pa.schema(
            [
                each.with_metadata({"PARQUET:field_id": str(number)})
                for number, each in enumerate(table.schema, 1)
            ]
        )
        return self.parquet(name, table.cast(schema), 0, **fields)

    def position_deletes(self, name: str, *rows: tuple[str, int]) -> dict[str, Any]:
        paths = [f"{self.location}/data/{path}" for path, _ in rows]
        columns = {"file_path": pa.string(), "pos": pa.int64()}
        schema = pa.schema(
            [
                pa.field(each, kind, False, {"PARQUET:field_id": str(number)})
                for (each, kind), number in zip(columns.items(), DELETE_COLUMNS, strict=True)
            ]
        )
        table = pa.table([paths, [each for _, each in rows]], schema)
        bounds = {
            f"{name}_bounds": [{"key": DELETE_COLUMNS[0], "value": path.encode()}]
            for name, path in (("lower", min(paths)), ("upper", max(paths)))
        }
        return self.parquet(name, table, 1, **bounds)

    def vectors(self, name: str, rows: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
        """Write a Puffin file of deletion vectors."""
        body, files = b"PFA1", []
        for path, numbers in rows.items():
            blob = bytes.fromhex("D1D33964") + encode_bitmap(positions(*numbers))
            framed = struct.pack(">i", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
            place = {"content_offset": len(body), "content_size_in_bytes": len(framed)}
            target = f"{self.location}/data/{path}"
            files.append({"record_count": len(numbers), "referenced_data_file": target, **place})
            body += framed
        body += b"PFA1"
        self._put(name, body)
        return [{**self._file(name, "PUFFIN", len(body), 1), **each} for each in files]

    def commit(self, *files: Mapping[str, Any], codec: str = "deflate", **more: Any) -> None:
        number = len(self.snapshots) + 1
        for content in (0, 1):
            some = [each for each in files if bool(each.get("content")) == bool(content)]
            if some:
                name = f"metadata/{number}-m{content}.avro"
                body = manifest(self.version, some, codec)
                self._put_at(name, body)
                entry = {
                    "manifest_path": f"{self.location}/{name}",
                    "manifest_length": len(body),
                    "partition_spec_id": 0,
                    "added_snapshot_id": number,
                    "content": content,
                    "sequence_number": number if self.version > 1 else 0,
                    "added_files_count": len(some),
                }
                self._manifests.append(entry)
        name = f"metadata/snap-{number}.avro"
        self._put_at(name, manifest_list(self.version, self._manifests))
        snapshot = {
            "snapshot-id": number,
            "timestamp-ms": number,
            "manifest-list": f"{self.location}/{name}",
            "sequence-number": number,
            "summary": {"operation": "append"},
        }
        self.snapshots.append(snapshot)
        self.write(**more)

    def write(self, **more: Any) -> None:
        schema = {"type": "struct", "schema-id": 0, "fields": self.fields}
        document = {
            "format-version": self.version,
            "table-uuid": "00000000-0000-0000-0000-000000000001",
            "location": self.location,
            "last-sequence-number": len(self.snapshots),
            "last-updated-ms": len(self.snapshots),
            "last-column-id": 9,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "current-schema-id": 0,
            "schemas": [schema],
            **({"schema": schema} if self.version == 1 else {}),
            "current-snapshot-id": len(self.snapshots) or None,
            "snapshots": self.snapshots,
            "properties": {},
            **more,
        }
        name = f"metadata/v{len(self.snapshots) + 1}.metadata.json"
        self._put_at(name, json.dumps(document).encode())
        self._put_at("metadata/version-hint.text", str(len(self.snapshots) + 1).encode())

    def parquet(
        self, name: str, table: pa.Table, content: int = 0, **fields: Any
    ) -> dict[str, Any]:
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        file = self._file(name, "PARQUET", path.stat().st_size, content)
        return {**file, "record_count": table.num_rows, **fields}

    def _file(self, name: str, kind: str, size: int, content: int) -> dict[str, Any]:
        return {
            "file_path": f"{self.location}/data/{name}",
            "file_format": kind,
            "partition": {},
            "file_size_in_bytes": size,
            "block_size_in_bytes": 0,
            "content": content,
        }

    def _put(self, name: str, body: bytes) -> None:
        self._put_at(f"data/{name}", body)

    def _put_at(self, name: str, body: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(body)
