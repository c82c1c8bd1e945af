"""Schemas and properties of a table on two sides: equal, and readable with each other's files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import decode_json
from sparklake.metadata.union.conflicts import UnmergeableTableError

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

PHYSICAL = "delta.columnMapping.physicalName"
_TYPE_CHANGES = "delta.typeChanges"

CONSTRAINT = "delta.constraints."

_OF_CHANGES = ("delta.appendOnly", "delta.enableChangeDataFeed")
_STRICT = (*_OF_CHANGES, "delta.enableIcebergCompat")
"""Prefixes of restrictive properties, which the other side's files, or changes, may violate."""

_EXPRESSIONS = ("delta.generationExpression", "delta.invariants")

_RULES = {*_EXPRESSIONS, IDENTITY + "step"}
"""Metadata of columns with restricted values, which may forbid null."""

_OF_WRITES = {"comment", "CURRENT_DEFAULT", COLUMN_ID, PHYSICAL, _TYPE_CHANGES, IDENTITY_MARK}
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


def with_fields(metadata: Metadata, fields: Sequence[Column]) -> Metadata:
    schema = {**decoded_schema(metadata), "fields": fields}
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return {**metadata, "schemaString": text}


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


def column_ids(value: Any) -> Iterator[int]:
    """Yield the ids of a column and its nested fields."""
    if isinstance(value, dict):
        if COLUMN_ID in (value.get("metadata") or {}):
            yield int(value["metadata"][COLUMN_ID])
        value = [each for name, each in value.items() if name != "metadata"]
    if isinstance(value, list):
        for each in value:
            yield from column_ids(each)


def reads_by_id(metadata: Metadata) -> bool:
    """Return whether readers match the columns of files by id: in this mode, or as Iceberg."""
    compat = (
        each for each in settings_of(metadata) if each.startswith("delta.enableIcebergCompat")
    )
    return mapping_mode(metadata) == "id" or any(is_enabled(metadata, each) for each in compat)


def constraints_of(metadata: Metadata) -> dict[str, str]:
    """Return the CHECK constraints, by property."""
    settings = settings_of(metadata).items()
    return {name: str(each) for name, each in settings if name.startswith(CONSTRAINT)}


def expressions_of(metadata: Metadata) -> set[str]:
    """Return the expressions in constraints and columns."""
    notes = (notes_of(each).get(name) for each in schema_fields(metadata) for name in _EXPRESSIONS)
    return {*constraints_of(metadata).values(), *(str(each) for each in notes if each)}


def columns_of(metadata: Metadata) -> dict[str, Column]:
    """Return the columns by their names in files, which renames keep."""
    return by_file_name(schema_fields(metadata), mapping_mode(metadata) != "none")


def by_file_name(fields: list[Column], is_mapped: bool) -> dict[str, Column]:
    return {
        str((is_mapped and notes_of(each).get(PHYSICAL)) or each["name"]): each for each in fields
    }


def named_like(metadata: Metadata, other: Metadata) -> Metadata:
    """Return metadata with the other's column names, matched by file names."""
    modes = [mapping_mode(each) != "none" for each in (metadata, other)]
    columns, others = columns_of(metadata), columns_of(other)
    names = {
        each["name"]: others[name]["name"] if name in others else each["name"]
        for name, each in columns.items()
    }
    fields = _named_like(schema_fields(metadata), schema_fields(other), modes)
    partitions = [names.get(each, each) for each in metadata.get("partitionColumns") or ()]
    return {**with_fields(metadata, fields), "partitionColumns": partitions}


def _named_like(one: Any, other: Any, modes: Sequence[bool]) -> Any:
    """Return fields, or a type, with the names in another one."""
    if isinstance(one, list) and isinstance(other, list):
        others = by_file_name(other, modes[1])
        return [
            {
                **each,
                "name": others[name]["name"],
                "type": _named_like(each["type"], others[name]["type"], modes),
            }
            if name in others
            else each
            for name, each in by_file_name(one, modes[0]).items()
        ]
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return one
    nested = (each for each in ("fields", "elementType", "keyType", "valueType") if each in one)
    return {**one, **{each: _named_like(one[each], other.get(each), modes) for each in nested}}


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


def check_fits(
    before: Metadata, files: Metadata, after: Metadata, changer: str, *, appends: bool = False
) -> None:
    """Reject merged metadata with which a side's files may not be valid.

    The files are valid with the side's own metadata, `files`. With `appends`, the side removed no
    rows.
    """
    for problem in _misfits(before, files, after, appends=appends):
        raise UnmergeableTableError(f"{changer} {problem}")


def _misfits(before: Metadata, files: Metadata, after: Metadata, *, appends: bool) -> Iterator[str]:
    if after.get("id") not in (before.get("id"), files.get("id")):
        yield f"replaced the table with a new one (with a different id){_OR_TAKE}"
    modes = mapping_mode(files), mapping_mode(after)
    if modes[0] != modes[1] and modes != ("none", "name"):
        yield f"changed the column mapping from {modes[0]} to {modes[1]}{_WROTE} data{_OR_TAKE}"
    if files.get("format") != after.get("format"):
        yield f"changed the table's format{_WROTE} data{_OR_TAKE}"
    if _partitioning(files) != _partitioning(after):
        yield f"changed the table's partitionColumns{_WROTE} data{_OR_TAKE}"
    values, others = settings_of(files), settings_of(after)
    for name in sorted({*values, *others}):
        is_strict = name.startswith(_STRICT) and is_enabled(after, name)
        if is_strict and not is_enabled(files, name) and not (appends and name in _OF_CHANGES):
            yield (
                f"changed the property {name}{_WROTE} data. Set it to {others[name]!r} on both "
                "sides, and merge again"
            )
    known = columns_of(before)
    yield from _misfit_columns(known, columns_of(files), columns_of(after), after, modes[0])


def _misfit_columns(
    known: Mapping[str, Column],
    old: Mapping[str, Column],
    new: Mapping[str, Column],
    after: Metadata,
    mode: str,
) -> Iterator[str]:
    by_id, is_mapped = reads_by_id(after), mode != "none"
    for name, column in old.items():
        if name in new and (name in known or column["type"] != new[name]["type"]):
            change = _column_change(column, new[name], is_mapped, by_id=by_id)
            if change:
                yield (
                    f"changed the column {column['name']!r} ({change}){_WROTE} data. Make the same "
                    "change on both sides, or take one side with source-wins or dest-wins"
                )
        elif name not in new and not is_mapped:
            yield f"dropped the column {column['name']!r}{_WROTE} data{_OR_TAKE}"
    for column in (each for name, each in new.items() if name not in old):
        added = f"added the column {column['name']!r}, which is"
        if not column.get("nullable", True):
            yield f"{added} NOT NULL{_WROTE} rows without it{_OR_TAKE}"
        if not _RULES.isdisjoint(notes_of(column)):
            yield f"{added} generated or constrained{_WROTE} rows without it{_OR_TAKE}"


def added_constraints(files: Metadata, after: Metadata) -> dict[str, str]:
    """Return the constraints, by property, that a side's files need not satisfy yet."""
    own = constraints_of(files)
    return {name: each for name, each in constraints_of(after).items() if own.get(name) != each}


_WROTE = ", and the other side wrote"
_OR_TAKE = ". Take one side with source-wins or dest-wins, and repeat the changes of the other"


def _partitioning(metadata: Metadata) -> list[str]:
    file_names = {each["name"]: name for name, each in columns_of(metadata).items()}
    return [file_names.get(each, each) for each in metadata.get("partitionColumns") or ()]


def _column_change(old: Column, new: Column, is_mapped: bool, *, by_id: bool = False) -> str | None:
    """Return why files with the old column do not fit the new one, or None if they do."""
    notes, others = notes_of(old), notes_of(new)
    if by_id and notes.get(COLUMN_ID) != others.get(COLUMN_ID):
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
        fields = by_file_name(old["fields"], is_mapped)
        others = by_file_name(new["fields"], is_mapped)
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
