"""Schemas and properties of a table on two sides: equal, and readable with each other's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import decode_json
from sparklake.unions.conflicts import UnmergeableTableError

Metadata = Mapping[str, Any]
"""The fields of a `metaData` action."""

Column = Mapping[str, Any]
"""A field of a schema in JSON."""

ROW_TRACKING = "delta.rowTracking"
"""The domain of the highest row id."""

MODE = "delta.columnMapping.mode"
COLUMN_ID = "delta.columnMapping.id"
IDENTITY = "delta.identity."
IDENTITY_MARK = IDENTITY + "highWaterMark"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
TIMESTAMPS = "delta.enableInCommitTimestamps"
ENABLED_AT = "delta.inCommitTimestampEnablementVersion"
ENABLED_TIME = "delta.inCommitTimestampEnablementTimestamp"

DERIVED = {MAX_COLUMN_ID, ENABLED_AT, ENABLED_TIME}
"""Properties whose values depend on the log. No side's value is right for both."""

_PHYSICAL = "delta.columnMapping.physicalName"
_TYPE_CHANGES = "delta.typeChanges"

_STRICT = (
    "delta.constraints.",
    "delta.appendOnly",
    "delta.enableChangeDataFeed",
    "delta.enableIcebergCompat",
)
"""Prefixes of restrictive properties, which the other side's files may violate."""

_RULES = {"delta.generationExpression", "delta.invariants", IDENTITY + "step"}
"""Metadata of columns with restricted values, which may forbid null."""

_OF_WRITES = {"comment", "CURRENT_DEFAULT", COLUMN_ID, _PHYSICAL, _TYPE_CHANGES, IDENTITY_MARK}
"""Metadata of columns with no effect on written files, or checked on its own."""


def settings_of(metadata: Metadata | None) -> dict[str, Any]:
    return (metadata or {}).get("configuration") or {}


def is_enabled(metadata: Metadata | None, name: str) -> bool:
    return str(settings_of(metadata).get(name)).lower() == "true"


def mapping_mode(metadata: Metadata) -> str:
    return str(settings_of(metadata).get(MODE) or "none").lower()


def decoded_schema(metadata: Metadata) -> dict[str, Any]:
    text = metadata.get("schemaString") or "{}"
    try:
        return decode_json(text if isinstance(text, str) else b"", dict[str, Any], "it")
    except CorruptFileError as error:
        raise UnmergeableTableError(
            f"the table's schema is not the JSON of a schema ({error})"
        ) from error


def schema_fields(metadata: Metadata) -> list[Column]:
    fields = decoded_schema(metadata).get("fields", [])
    if not (isinstance(fields, list) and all(map(_is_field, fields))):
        raise UnmergeableTableError("the table's schema has columns without a name or a type")
    return fields


def _is_field(field: object) -> bool:
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and "type" in field
        and isinstance(field.get("metadata") or {}, dict)
    )


def notes_of(column: Column) -> Mapping[str, Any]:
    """Return the metadata of a column."""
    return column.get("metadata") or {}


def columns_of(metadata: Metadata) -> dict[str, Column]:
    """Return the columns by their names in files, which renames keep."""
    return _by_file_name(schema_fields(metadata), mapping_mode(metadata) != "none")


def _by_file_name(fields: list[Column], is_mapped: bool) -> dict[str, Column]:
    return {
        str((is_mapped and notes_of(each).get(_PHYSICAL)) or each["name"]): each for each in fields
    }


def same_metadata(one: Metadata | None, other: Metadata | None) -> bool:
    """Compare metadata of two sides, except high-water marks and the order in the schema's JSON."""
    return _shape(one) == _shape(other)


def _shape(metadata: Metadata | None) -> Mapping[str, Any] | None:
    if metadata is None:
        return None
    schema, settings = decoded_schema(metadata), settings_of(metadata)
    if any(IDENTITY_MARK in notes_of(each) for each in schema_fields(metadata)):
        schema = {**schema, "fields": [without_mark(each) for each in schema["fields"]]}
    shape = {name: each for name, each in settings.items() if name not in DERIVED}
    return {**metadata, "schemaString": schema, "configuration": shape}


def without_mark(column: Column) -> Column:
    notes = {name: each for name, each in notes_of(column).items() if name != IDENTITY_MARK}
    return {**column, "metadata": notes}


# --- files of the other side ----------------------------------------------------------------------


def check_fits(before: Metadata, after: Metadata, changer: str) -> None:
    """Reject metadata changes with which files of the other side may not be valid."""
    for problem in _misfits(before, after):
        raise UnmergeableTableError(f"{changer} {problem}")


def _misfits(before: Metadata, after: Metadata) -> Iterator[str]:
    if before.get("id") != after.get("id"):
        yield "replaced the table with a new one (with a different id)"
    modes = mapping_mode(before), mapping_mode(after)
    if modes[0] != modes[1] and modes != ("none", "name"):
        yield f"changed the column mapping from {modes[0]} to {modes[1]}{_WROTE} data"
    if before.get("format") != after.get("format"):
        yield f"changed the table's format{_WROTE} data"
    if _partitioning(before) != _partitioning(after):
        yield f"changed the table's partitionColumns{_WROTE} data"
    values, others = settings_of(before), settings_of(after)
    for name in sorted({*values, *others}):
        if name.startswith(_STRICT) and values.get(name) != others.get(name):
            yield f"changed the property {name}{_WROTE} data"
    yield from _misfit_columns(columns_of(before), columns_of(after), modes[0] != "none")


def _misfit_columns(
    old: Mapping[str, Column], new: Mapping[str, Column], is_mapped: bool
) -> Iterator[str]:
    for name, column in old.items():
        if name in new:
            change = _column_change(column, new[name], is_mapped)
            if change:
                yield f"changed the column {column['name']!r} ({change}){_WROTE} data"
        elif not is_mapped:
            yield f"dropped the column {column['name']!r}{_WROTE} data"
    for column in (each for name, each in new.items() if name not in old):
        added = f"added the column {column['name']!r}, which is"
        if not column.get("nullable", True):
            yield f"{added} NOT NULL{_WROTE} rows without it"
        if not _RULES.isdisjoint(notes_of(column)):
            yield f"{added} generated or constrained{_WROTE} rows without it"


_WROTE = ", and the other side wrote"


def _partitioning(metadata: Metadata) -> list[str]:
    file_names = {each["name"]: name for name, each in columns_of(metadata).items()}
    return [file_names.get(each, each) for each in metadata.get("partitionColumns") or ()]


def _column_change(old: Column, new: Column, is_mapped: bool) -> str | None:
    """Return why files with the old column do not fit the new one, or None if they do."""
    notes, others = notes_of(old), notes_of(new)
    if is_mapped and notes.get(COLUMN_ID) != others.get(COLUMN_ID):
        return (
            f"its id is {notes.get(COLUMN_ID)} on one side and {others.get(COLUMN_ID)} on the other"
        )
    if old.get("nullable", True) and not new.get("nullable", True):
        return "it became NOT NULL"
    different = (name for name in {*notes, *others} if notes.get(name) != others.get(name))
    for name in sorted({*different} - _OF_WRITES):
        return f"its {name}"
    changes, more = notes.get(_TYPE_CHANGES) or [], others.get(_TYPE_CHANGES) or []
    widened: dict[str, tuple[str, str]] = {}
    if changes == more[: len(changes)]:
        for each in more[len(changes) :]:
            path = str(each.get("fieldPath") or "")
            start = widened.get(path, (each.get("fromType"), ""))[0]
            widened[path] = (str(start), str(each.get("toType")))
    return None if _type_fits(old["type"], new["type"], widened, "", is_mapped) else "its type"


def _type_fits(
    old: Any, new: Any, widened: Mapping[str, tuple[str, str]], path: str, is_mapped: bool
) -> bool:
    """Return whether files with an old type can be read with a new one.

    They can if fields were added, renamed or dropped in structs, or a recorded change widened it.
    """
    if old == new or (path in widened and widened[path] == (old, new)):
        return True
    if not (isinstance(old, dict) and isinstance(new, dict) and old.get("type") == new.get("type")):
        return False
    if old["type"] == "struct":
        fields = _by_file_name(old["fields"], is_mapped)
        others = _by_file_name(new["fields"], is_mapped)
        return all(
            _column_change(each, others[name], is_mapped) is None if name in others else is_mapped
            for name, each in fields.items()
        ) and all(
            each.get("nullable", True) and _RULES.isdisjoint(notes_of(each))
            for name, each in others.items()
            if name not in fields
        )
    return all(
        _type_fits(old[part], new[part], widened, f"{path}.{kind}".lstrip("."), is_mapped)
        if kind
        else new[part] or not old[part]
        for part, kind in _PARTS.items()
        if part in old
    )


_PARTS = {
    "elementType": "element",
    "keyType": "key",
    "valueType": "value",
    "containsNull": "",
    "valueContainsNull": "",
}
"""The parts of arrays and maps, and their names in the paths of type changes."""
