"""Conflicts of Delta commits beyond files: progress, domains, schemas, features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparklake.delta_log.delta_commits import DeltaCommit, UnmergeableTableError
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
    """Raise UnmergeableTableError if a commit of source would revert a named action of dest.

    The last commit of each name counts. Dest may have commits of source that come after this
    one.
    """
    places: dict[str, float] = {each.origin: at for at, each in enumerate(source)}
    places.update((each.origin, -1) for each in base)
    for kind, (_, did) in _NAMED.items():
        there, coming = (_latest(each, kind, places) for each in (dest, fresh))
        late = [name for name, place in coming.items() if there.get(name, -1) > place]
        if late:
            raise UnmergeableTableError(f"both sides {did}, {min(late)!r}")


def _latest(
    commits: Iterable[DeltaCommit], kind: str, places: Mapping[str, float]
) -> dict[str, float]:
    """Return the latest place in source of each name's commits; infinity for others."""
    found: dict[str, float] = {}
    for each in commits:
        place = places.get(each.origin, math.inf)
        for said in each.said(kind):
            name = str(said.get(_NAMED[kind][0]))
            found[name] = max(place, found.get(name, -1))
    return found


_STRICT = ("delta.constraints.", "delta.appendOnly", "delta.enableChangeDataFeed")
"""Prefixes of properties that restrict files. The other side may not have obeyed them."""

_RULES = {"delta.generationExpression", "delta.invariants"}
"""Column metadata that restricts values and may forbid null."""


def same_metadata(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Return whether two sides have equal table metadata, ignoring the order in JSON."""
    return _plain(one) == _plain(other)


def check_fits(before: Mapping[str, Any], after: Mapping[str, Any], changer: str) -> None:
    """Raise UnmergeableTableError unless earlier files stay valid after a change of metadata.

    Nullable columns may be added. Everything else that a file depends on must be unchanged.
    """
    if before.get("id") != after.get("id"):
        raise UnmergeableTableError(f"{changer} replaced the table by another one (with a new id)")
    for name in ("partitionColumns", "format"):
        if before.get(name) != after.get(name):
            raise UnmergeableTableError(
                f"{changer} changed the table's {name}, and the other side wrote"
            )
    _check_settings(before, after, changer)
    old, new = _columns(before), _columns(after)
    for name, column in old.items():
        if new.get(name) != column:
            done = "changed" if name in new else "dropped"
            raise UnmergeableTableError(
                f"{changer} {done} the column {name!r}, and the other side wrote"
            )
    strict = [name for name in new if name not in old and not new[name].get("nullable", True)]
    if strict:
        raise UnmergeableTableError(
            f"{changer} added the column {strict[0]!r}, which may not be null, and the other side "
            "wrote without it"
        )
    added = {name: each.get("metadata") or {} for name, each in new.items() if name not in old}
    ruled = [name for name, metadata in added.items() if not _RULES.isdisjoint(metadata)]
    if ruled:
        raise UnmergeableTableError(
            f"{changer} added the column {ruled[0]!r}, which is generated or checked, and the "
            "other side wrote without it"
        )


def _check_settings(before: Mapping[str, Any], after: Mapping[str, Any], changer: str) -> None:
    old, new = (each.get("configuration") or {} for each in (before, after))
    for name in sorted({*old, *new}):
        if name.startswith(_STRICT) and old.get(name) != new.get(name):
            raise UnmergeableTableError(
                f"{changer} changed the property {name}, and the other side wrote"
            )


def _plain(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if metadata is None:
        return None
    return {**metadata, "schemaString": _schema(metadata)}


def _columns(metadata: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["name"]: each for each in schema_fields(metadata)}


def schema_fields(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the columns of a table, each with a name and a type; raise UnmergeableTableError."""
    fields = _schema(metadata).get("fields", [])
    if not (isinstance(fields, list) and all(map(_is_field, fields))):
        raise UnmergeableTableError("the table's schema has columns without a name or a type")
    return fields


def _schema(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a table; raise UnmergeableTableError for a damaged one."""
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
