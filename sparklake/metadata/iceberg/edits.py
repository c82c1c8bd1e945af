"""Metadata for a private copy, and for the table after an edit."""

from __future__ import annotations

from sparklake.metadata.iceberg.documents import Document, with_former, with_properties

_PLACES = (
    "write.data.path",
    "write.folder-storage.path",
    "write.location-provider.impl",
    "write.metadata.path",
    "write.object-storage.path",
)
"""Properties that place new files outside of the table's location."""

_OF_COPIES: dict[str, str | None] = {
    **dict.fromkeys(_PLACES),
    # Other refs share the files: expiry and orphan removal are refused.
    "gc.enabled": "false",
    "write.metadata.compression-codec": None,
}


def editable(document: Document, location: str) -> Document:
    """Return the metadata of a copy at a location, with all paths unchanged.

    Without a metadata log, the copy's commits delete none of the table's metadata files.
    """
    copy = {**document, "location": location, "metadata-log": []}
    return with_properties(copy, _OF_COPIES)


def edited(copy: Document, before: Document, path: str) -> Document:
    """Return the metadata of the table after commits to its copy.

    `path` is that of the metadata before. A property that the edit changed keeps its new value.
    """
    properties, own = copy.get("properties") or {}, before.get("properties") or {}
    values = {
        name: own.get(name) for name, value in _OF_COPIES.items() if properties.get(name) == value
    }
    table = with_former({**copy, "location": before["location"]}, before, path)
    return with_properties(table, values)


def without_places(document: Document) -> Document:
    """Return the metadata without custom file locations."""
    return with_properties(document, dict.fromkeys(_PLACES))


def identity_columns(document: Document) -> list[str]:
    """Return the top-level partition columns of a table."""
    specs = {each["spec-id"]: each["fields"] for each in document.get("partition-specs") or []}
    schemas = document.get("schemas") or [document.get("schema") or {}]
    names = {each["id"]: each["name"] for one in schemas for each in one.get("fields", [])}
    fields = specs.get(document.get("default-spec-id", 0), [])
    return [
        names.get(each["source-id"], each["name"])
        for each in fields
        if each["transform"] == "identity"
    ]
