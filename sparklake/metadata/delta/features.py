"""Delta's table features, and their support in merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparklake.errors import InvalidInputError

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

_CATALOG = "a catalog orders its commits: copy it into a table by path with DEEP CLONE or CTAS"
_ELSEWHERE = (
    "the log alone does not describe it: copy it into a table by path with DEEP CLONE or CTAS"
)
_DROP = "drop it with ALTER TABLE ... DROP FEATURE"
_PREVIEW = f"its rules may still change in Delta: {_DROP}"
_UNKNOWN = f"this version of sparklake does not know it: use a later one, or {_DROP}"

FEATURES: Mapping[str, str | None] = {
    "adaptiveMetadata": _ELSEWHERE,
    "adaptiveMetadata-preview": _ELSEWHERE,
    "allowColumnDefaults": None,
    "appendOnly": None,
    "catalogManaged": _CATALOG,
    "catalogOwned-preview": _CATALOG,
    "changeDataFeed": None,
    "checkConstraints": None,
    "checkpointProtection": None,
    "clustering": None,
    "collations": _PREVIEW,
    "collations-preview": _PREVIEW,
    "columnMapping": None,
    "columnMappingUsageTracking": _PREVIEW,
    "coordinatedCommits-preview": _CATALOG,
    "deletionVectors": None,
    "domainMetadata": None,
    "generatedColumns": None,
    "geospatial": _PREVIEW,
    "geospatial-dev": _PREVIEW,
    "icebergCompatV1": None,
    "icebergCompatV2": None,
    "icebergCompatV3": None,
    "icebergNativeV4": _ELSEWHERE,
    "icebergNativeV4-preview": _ELSEWHERE,
    "icebergWriterCompatV1": _PREVIEW,
    "identityColumns": None,
    "inCommitTimestamp": None,
    "invariants": None,
    "materializePartitionColumns": _PREVIEW,
    "redirectReaderWriter-preview": "its files are in another table: merge that one",
    "redirectWriterOnly-preview": "its files are in another table: merge that one",
    "rowTracking": None,
    "tableBranching": _ELSEWHERE,
    "tableBranching-preview": _ELSEWHERE,
    "timestampNanos": _PREVIEW,
    "timestampNtz": None,
    "typeWidening": None,
    "typeWidening-preview": "its type changes refer to versions: drop it, and enable typeWidening",
    "v2Checkpoint": None,
    "vacuumProtocolCheck": None,
    "variantShredding": None,
    "variantShredding-preview": None,
    "variantType": None,
    "variantType-preview": None,
}
"""The known features, and why a table with one is not merged, or None if it is."""


def check_ordered_by_log(protocol: Mapping[str, Any] | None, table: str) -> None:
    """Reject a table with an incomplete log."""
    if problem := problem_of_log(protocol, table):
        raise InvalidInputError(problem)


def problem_of_log(protocol: Mapping[str, Any] | None, table: str) -> str:
    """Return why a table's log does not contain the whole table, or ""."""
    reasons = {
        _CATALOG: "a catalog orders its commits and the log may lack the newest: in the catalog,",
        _ELSEWHERE: "the log alone does not describe it:",
    }
    for kind in ("writerFeatures", "readerFeatures"):
        for name in (protocol or {}).get(kind) or ():
            if reason := reasons.get(FEATURES.get(name) or ""):
                return (
                    f"{table} has the feature {name}, so {reason} copy it to a path with DEEP "
                    "CLONE or CTAS, or drop the feature, and import that"
                )
    return ""


def unmergeable_features(protocol: Mapping[str, Any]) -> Iterator[str]:
    """Describe each table feature that merges reject."""
    reader, writer = protocol.get("minReaderVersion", 1), protocol.get("minWriterVersion", 2)
    if reader > MAX_READER_VERSION or writer > MAX_WRITER_VERSION:
        yield f"protocol ({reader}, {writer}), which requires a later version of sparklake"
    for name in sorted(
        {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    ):
        reason = FEATURES.get(name, _UNKNOWN)
        if reason is not None:
            yield f"{name} ({reason})"
