"""Conflicts of Delta commits beyond files: progress, domains, schemas, features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparklake.delta_log.delta_commits import DeltaCommit, UnmergeableTableError
from sparklake.delta_log.features import unmergeable_features
from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import decode_json

_NAMED = {
    "txn": ("appId", "wrote for the same streaming application"),
    "domainMetadata": ("domain", "changed the same domain"),
}


def check_names(
    base: Sequence[DeltaCommit],
    source: Sequence[DeltaCommit],
    dest: Sequence[DeltaCommit],
    fresh: Sequence[DeltaCommit],
) -> None:
    """Reject reverts of named actions in dest, based on the last commit of each name."""
    places: dict[str, float] = {each.origin: at for at, each in enumerate(source)}
    places.update((each.origin, -1) for each in base)
    for kind, (_, did) in _NAMED.items():
        current, coming = (_latest(each, kind, places) for each in (dest, fresh))
        late = [name for name, place in coming.items() if current.get(name, -1) > place]
        if late:
            raise UnmergeableTableError(f"both sides {did}, {min(late)!r}")


def _latest(
    commits: Iterable[DeltaCommit], kind: str, places: Mapping[str, float]
) -> dict[str, float]:
    """Return the latest position in source of each name's commits; infinity if not in source."""
    latest: dict[str, float] = {}
    for each in commits:
        place = places.get(each.origin, math.inf)
        for fields in each.fields(kind):
            name = str(fields.get(_NAMED[kind][0]))
            latest[name] = max(place, latest.get(name, -1))
    return latest


_STRICT = ("delta.constraints.", "delta.appendOnly", "delta.enableChangeDataFeed")
"""Prefixes of restrictive properties, which the other side's files may violate."""

_RULES = {"delta.generationExpression", "delta.invariants"}
"""Metadata of columns with restricted values, which may forbid null."""


def same_metadata(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Compare metadata of two sides, ignoring the order in the schema's JSON."""
    plain = [each and {**each, "schemaString": _schema(each)} for each in (one, other)]
    return plain[0] == plain[1]


def check_fits(before: Mapping[str, Any], after: Mapping[str, Any], changer: str) -> None:
    """Reject metadata changes other than new nullable columns without constraints."""
    if before.get("id") != after.get("id"):
        raise UnmergeableTableError(
            f"{changer} replaced the table with a new one (with a different id)"
        )
    for name in ("partitionColumns", "format"):
        if before.get(name) != after.get(name):
            raise UnmergeableTableError(
                f"{changer} changed the table's {name}, and the other side wrote data"
            )
    old, new = (each.get("configuration") or {} for each in (before, after))
    for name in sorted({*old, *new}):
        if name.startswith(_STRICT) and old.get(name) != new.get(name):
            raise UnmergeableTableError(
                f"{changer} changed the property {name}, and the other side wrote data"
            )
    old, new = ({each["name"]: each for each in schema_fields(side)} for side in (before, after))
    for name, column in old.items():
        if new.get(name) != column:
            done = "changed" if name in new else "dropped"
            raise UnmergeableTableError(
                f"{changer} {done} the column {name!r}, and the other side wrote data"
            )
    added = {name: each for name, each in new.items() if name not in old}
    strict = [name for name, each in added.items() if not each.get("nullable", True)]
    if strict:
        raise UnmergeableTableError(
            f"{changer} added the column {strict[0]!r}, which is NOT NULL, and the other side "
            "wrote "
            "rows without it"
        )
    ruled = [
        name for name, each in added.items() if not _RULES.isdisjoint(each.get("metadata") or ())
    ]
    if ruled:
        raise UnmergeableTableError(
            f"{changer} added the column {ruled[0]!r}, which is generated or constrained, and the "
            "other side wrote rows without it"
        )


def schema_fields(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = _schema(metadata).get("fields", [])
    if not (isinstance(fields, list) and all(map(_is_field, fields))):
        raise UnmergeableTableError("the table's schema has columns without a name or a type")
    return fields


def _schema(metadata: Mapping[str, Any]) -> dict[str, Any]:
    text = metadata.get("schemaString") or "{}"
    try:
        return decode_json(text if isinstance(text, str) else b"", dict[str, Any], "it")
    except CorruptFileError as error:
        raise UnmergeableTableError(
            f"the table's schema is not the JSON of a schema ({error})"
        ) from error


def _is_field(field: object) -> bool:
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and "type" in field
        and isinstance(field.get("metadata") or {}, dict)
    )


# --- features -------------------------------------------------------------------------------------

SUPPORTED_UNUSED = {
    "columnMapping": "delta.columnMapping.mode",
    "inCommitTimestamp": "delta.enableInCommitTimestamps",
}
"""Features supported unless the property enables them."""

_UNUSED = {None, "", "none", "false"}
_IDENTITY = "delta.identity."


def check_features(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    for what in _obstacles(protocol, metadata):
        raise UnmergeableTableError(f"the table uses a feature that cannot be merged: {what}")


def _obstacles(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    settings = metadata.get("configuration") or {}
    keys = (name for each in schema_fields(metadata) for name in each.get("metadata") or ())
    has_identity = any(name.startswith(_IDENTITY) for name in keys)
    unused = {*SUPPORTED_UNUSED} if has_identity else {*SUPPORTED_UNUSED, "identityColumns"}
    yield from unmergeable_features(protocol, unused)
    for feature, name in SUPPORTED_UNUSED.items():
        if str(settings.get(name) or "").lower() not in _UNUSED:
            yield feature
    if has_identity:
        yield "identityColumns"


def check_covers(one: Mapping[str, Any], other: Mapping[str, Any], holder: str, asker: str) -> None:
    for name in ("minReaderVersion", "minWriterVersion"):
        if one.get(name, 1) < other.get(name, 1):
            raise UnmergeableTableError(f"{holder}'s table has a lower {name} than {asker}'s")
    for name in ("readerFeatures", "writerFeatures"):
        lacking = {*(other.get(name) or ())} - {*(one.get(name) or ())}
        if lacking:
            raise UnmergeableTableError(
                f"{holder}'s table lacks the feature {min(lacking)!r} of {asker}'s table"
            )
