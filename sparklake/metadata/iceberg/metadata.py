"""Iceberg table metadata: the metadata.json fields required for reads."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.graveler.json_errors import decode_json
from sparklake.metadata.iceberg.file_names import Location

MAX_METADATA_BYTES = 256 * 1024 * 1024
REMEDY = "commit an earlier version of the file again, with `restore`"
_GZIP = b"\x1f\x8b"
NEWEST_VERSION = 3
_NAME_MAPPING = "schema.name-mapping.default"


class Snapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """One state of a table. Very old tables list manifests here, without a manifest list."""

    snapshot_id: int
    sequence_number: int = 0
    manifest_list: str | None = None
    manifests: Sequence[str] = ()
    schema_id: int | None = None
    key_id: str | None = None


class Reference(msgspec.Struct, frozen=True, rename="kebab"):
    """A branch or tag within a table."""

    snapshot_id: int


class TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """The content of a metadata.json. `schema` is that of version 1 without a list."""

    format_version: int
    location: str
    current_schema_id: int | None = None
    schemas: Sequence[Mapping[str, Any]] = ()
    schema: Mapping[str, Any] | None = None
    current_snapshot_id: int | None = None
    snapshots: Sequence[Snapshot] = ()
    refs: Mapping[str, Reference] = {}
    properties: Mapping[str, str] = {}
    encryption_keys: Sequence[Any] = ()

    @property
    def folder(self) -> Location:
        return Location(self.location)

    def snapshot(self, version: str | None = None) -> Snapshot | None:
        """Return the current snapshot, None in an empty table, or one by id, branch or tag.

        Raises:
            InvalidInputError: The table has no such snapshot.
        """
        number = self.current_snapshot_id
        if version is not None:
            reference = self.refs.get(version)
            if reference is None and not (version.isascii() and version.isdigit()):
                raise InvalidInputError(f"it has no snapshot, branch or tag {version!r}")
            number = int(version) if reference is None else reference.snapshot_id
        elif number in (None, -1):
            return None
        matches = [each for each in self.snapshots if each.snapshot_id == number]
        if not matches:
            names = ", ".join(str(each.snapshot_id) for each in self.snapshots[-5:])
            raise InvalidInputError(f"it has no snapshot {number}. The latest are: {names}")
        return matches[-1]

    def schema_of(self, snapshot: Snapshot | None) -> Mapping[str, Any]:
        """Return the schema of a snapshot, None for the current schema."""
        number = self.current_schema_id
        if snapshot is not None and snapshot.schema_id is not None:
            number = snapshot.schema_id
        for each in self.schemas:
            if each.get("schema-id", 0) == number:
                return each
        if self.schema is None or self.schemas:
            raise CorruptFileError(f"its metadata has no schema {number}")
        return self.schema


def parse_metadata(body: bytes, *, maps_names: bool = False) -> TableMetadata:
    """Parse a metadata.json, compressed with gzip or not.

    With `maps_names`, the table may have a name mapping.

    Raises:
        CorruptFileError: It is damaged.
        InvalidInputError: The format version is unknown, or the table is encrypted.
    """
    table = decode_json(decompressed(body), TableMetadata, "its metadata", REMEDY)
    if not 1 <= table.format_version <= NEWEST_VERSION:
        raise InvalidInputError(
            f"it has the format version {table.format_version}, and sparklake reads 1 to "
            f"{NEWEST_VERSION}"
        )
    if _NAME_MAPPING in table.properties and not maps_names:
        raise InvalidInputError(
            f"it has the property {_NAME_MAPPING}, so its files may lack field ids, as those of a "
            "migrated table do. Rewrite them with rewrite_data_files, and unset the property"
        )
    keys = [each.key_id for each in table.snapshots if each.key_id is not None]
    if table.encryption_keys or keys or "encryption.key-id" in table.properties:
        raise InvalidInputError("it is encrypted, which sparklake does not support")
    return table


def decompressed(body: bytes) -> bytes:
    """Return the text of a metadata.json, compressed with gzip or not.

    Raises:
        CorruptFileError: It is truncated or too large.
    """
    if body[: len(_GZIP)] != _GZIP:
        return body
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        result = inflater.decompress(body, MAX_METADATA_BYTES + 1)
    except zlib.error as error:
        raise CorruptFileError(f"its metadata is damaged: {error}") from error
    if len(result) > MAX_METADATA_BYTES or not inflater.eof:
        raise CorruptFileError(
            f"its metadata is truncated, or has more than {MAX_METADATA_BYTES:,} bytes"
        )
    return result
