"""The Delta features with which tables can be united: those without row numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparklake.delta_log.delta_commits import UnmergeableTableError
from sparklake.delta_log.union.claims import schema_fields

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

SUPPORTED = {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features whose files may be added and removed in any conflict-free order."""

SUPPORTED_UNUSED = {
    "columnMapping": "delta.columnMapping.mode",
    "inCommitTimestamp": "delta.enableInCommitTimestamps",
}
"""Features that a table may have if the property does not enable them."""

_UNUSED = {None, "", "none", "false"}
_IDENTITY = "delta.identity."


def check_features(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Raise UnmergeableTableError for a table with an unsupported feature in use."""
    for what in _obstacles(protocol, metadata):
        raise UnmergeableTableError(f"the table uses a feature that cannot be united: {what}")


def _obstacles(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    reader, writer = protocol.get("minReaderVersion", 1), protocol.get("minWriterVersion", 2)
    if reader > MAX_READER_VERSION or writer > MAX_WRITER_VERSION:
        yield f"protocol ({reader}, {writer})"
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    settings = metadata.get("configuration") or {}
    identity = _has_identity(metadata)
    known = {*SUPPORTED, *SUPPORTED_UNUSED} | (set() if identity else {"identityColumns"})
    yield from sorted(features - known)
    for feature, name in SUPPORTED_UNUSED.items():
        if str(settings.get(name) or "").lower() not in _UNUSED:
            yield feature
    if identity:
        yield "identityColumns"


def check_covers(one: Mapping[str, Any], other: Mapping[str, Any], holder: str, asker: str) -> None:
    """Raise UnmergeableTableError if a side may use features not in the holder's protocol."""
    for name in ("minReaderVersion", "minWriterVersion"):
        if one.get(name, 1) < other.get(name, 1):
            raise UnmergeableTableError(f"{holder}'s table has a lower {name} than {asker}'s")
    for name in ("readerFeatures", "writerFeatures"):
        lacking = {*(other.get(name) or ())} - {*(one.get(name) or ())}
        if lacking:
            raise UnmergeableTableError(
                f"{holder}'s table lacks the feature {min(lacking)!r} of {asker}'s table"
            )


def _has_identity(metadata: Mapping[str, Any]) -> bool:
    fields = schema_fields(metadata)
    return any(name.startswith(_IDENTITY) for each in fields for name in each.get("metadata") or ())
