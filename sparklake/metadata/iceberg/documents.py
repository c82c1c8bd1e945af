"""metadata.json as a dictionary, to keep unknown fields in changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from sparklake.graveler.json_errors import decode_json
from sparklake.metadata.iceberg.metadata import REMEDY, decompressed, parse_metadata

Document: TypeAlias = dict[str, Any]
Place: TypeAlias = Callable[[str], str]
"""A function from a path in the metadata to the path to write instead."""

_KEPT_VERSIONS, _DEFAULT_VERSIONS = "write.metadata.previous-versions-max", 100
_PATHS = {
    "snapshots": "manifest-list",
    "metadata-log": "metadata-file",
    "statistics": "statistics-path",
    "partition-statistics": "statistics-path",
}


def decode_document(body: bytes) -> Document:
    """Decode a metadata.json that `parse_metadata` accepts.

    Raises:
        CorruptFileError: It is damaged.
        InvalidInputError: The format version is unknown, or the table is encrypted.
    """
    parse_metadata(body)
    return decode_json(decompressed(body), dict[str, Any], "its metadata", REMEDY)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Serialize a metadata.json. Equal documents give equal bytes."""
    return msgspec.json.encode(document)


def moved(document: Document, location: str, place: Place) -> Document:
    """Return the metadata at another location, with each path replaced.

    Properties with locations (`write.data.path` and others) stay: see `with_properties`.
    """
    result = {**document, "location": location}
    for name, field in _PATHS.items():
        if document.get(name):
            result[name] = [_moved_field(each, field, place) for each in document[name]]
    if document.get("snapshots"):
        result["snapshots"] = [
            {**each, "manifests": [place(path) for path in each["manifests"]]}
            if each.get("manifests")
            else each
            for each in result["snapshots"]
        ]
    return result


def with_properties(document: Document, changes: Mapping[str, str | None]) -> Document:
    """Return the metadata with some properties set, or removed if None."""
    properties = {**(document.get("properties") or {}), **changes}
    retained = {name: value for name, value in properties.items() if value is not None}
    return {**document, "properties": retained}


def with_former(document: Document, before: Document, path: str) -> Document:
    """Return the metadata with the log of the metadata before, whose `path` is its last entry.

    The log has as many entries as the table's properties keep, and at least one.
    """
    former = {"timestamp-ms": before.get("last-updated-ms") or 0, "metadata-file": path}
    text = str((document.get("properties") or {}).get(_KEPT_VERSIONS))
    limit = int(text) if text.lstrip("-").isdecimal() else _DEFAULT_VERSIONS
    log = [*(before.get("metadata-log") or []), former]
    return {**document, "metadata-log": log[-max(limit, 1) :]}


def _moved_field(fields: Mapping[str, Any], name: str, place: Place) -> Mapping[str, Any]:
    path = fields.get(name)
    return fields if path is None else {**fields, name: place(path)}
