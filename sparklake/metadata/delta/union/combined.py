"""Metadata that both sides changed: source's changes repeated on dest's columns and properties."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.delta.union.schemas import (
    COLUMN_ID,
    DERIVED,
    MAX_COLUMN_ID,
    PHYSICAL,
    Column,
    Metadata,
    by_file_name,
    column_ids,
    columns_of,
    decoded_schema,
    expressions_of,
    mapping_mode,
    notes_of,
    reads_by_id,
    same_metadata,
    schema_fields,
    settings_of,
    with_fields,
    without_mark,
)
from sparklake.metadata.delta.union.settings import max_id, with_marks_of
from sparklake.metadata.union.conflicts import UnmergeableTableError

OTHER_ORDER = (
    "dest already has some of source's changes to the table's schema, properties or protocol, in a "
    "different order"
)

_BY_NAME = ("schemaString", "configuration")


def metadata_steps(base: LogSide, source: LogSide, dest: LogSide) -> dict[int, Metadata]:
    """Return the metadata after each repeated commit of source that has some, by version.

    If only source changed the metadata, it is source's, and if only dest did, dest's. If both did,
    dest's metadata gets the changes of each commit of source.
    """
    steps = {each.version: last for each in source.own if (last := each.last("metaData"))}
    ours, theirs, before = dest.metadata or {}, source.metadata or {}, base.metadata
    if same_metadata(ours, before) and same_metadata([ours, *steps.values()][-1], theirs):
        return steps
    if same_metadata(theirs, before) or same_metadata(theirs, ours):
        return {version: with_marks_of(ours, each) for version, each in steps.items()}
    if same_metadata(ours, before):
        raise UnmergeableTableError(OTHER_ORDER)
    return _combined(base, source, dest, steps)


def created_by(side: LogSide) -> Metadata:
    """Return the first metadata in a complete log."""
    return next((last for each in side.commits if (last := each.last("metaData"))), {})


def base_metadata(base: LogSide, source: LogSide, dest: LogSide) -> Metadata:
    """Return base's metadata, or the common one of a table created on both sides."""
    if base.metadata is not None:
        return base.metadata
    theirs, ours = created_by(source), created_by(dest)
    parts = [
        {**each, "schemaString": _without_notes(decoded_schema(each))} for each in (theirs, ours)
    ]
    for name in ("schemaString", "partitionColumns", "format"):
        if parts[0].get(name) != parts[1].get(name):
            raise UnmergeableTableError(
                f"both sides created the table, with different {_CREATED[name]}. Take one side "
                "with source-wins or dest-wins, and add the rows of the other to it"
            )
    if (
        any(each.adds for each in source.own)
        and columns_of(theirs).keys() != columns_of(ours).keys()
    ):
        raise UnmergeableTableError(f"both sides created the table, and {_TWO_IDS}")
    shared = settings_of(theirs).items() & settings_of(ours).items()
    return {**ours, "configuration": dict(shared)}


_CREATED = {
    "schemaString": "columns",
    "partitionColumns": "partition columns",
    "format": "file formats",
}
_TWO_IDS = (
    "its columns have the same names under two ids, which the files of both use. Merge by rows "
    "with rows(KEY), or take one side with source-wins or dest-wins, and add the rows of the other"
)


def _combined(
    base: LogSide, source: LogSide, dest: LogSide, steps: Mapping[int, Metadata]
) -> dict[int, Metadata]:
    before = base_metadata(base, source, dest)
    previous = source.start().get("metaData")
    if base.metadata is None:
        previous = {**created_by(source), "configuration": before["configuration"]}
    if previous is None:
        raise UnmergeableTableError(
            "the log no longer describes the table before the sides diverged"
        )
    current, final = dest.metadata or {}, source.metadata or {}
    for commit in source.commits:
        metadata = commit.last("metaData")
        if metadata is None:
            continue
        if commit.version in steps:
            later = (each for each in source.commits if each.version >= commit.version)
            current = _repeated(
                (previous, metadata, final, current),
                in_source=any(each.adds for each in later),
                in_dest=any(each.adds for each in dest.commits),
            )
        previous = metadata
    _check_columns(current)
    names = {each["name"] for each in schema_fields(current)}
    added = columns_of(final).keys() - columns_of(before).keys()
    if not {columns_of(final)[each]["name"] for each in added} <= names:
        raise UnmergeableTableError(OTHER_ORDER)
    _check_expressions(before, final, dest.metadata or {})
    # Files of earlier commits are valid with the final metadata, too.
    return dict.fromkeys(steps, with_marks_of(current, final))


States = tuple[Metadata, Metadata, Metadata, Metadata]
"""The metadata before a commit of source, after it, at the end of source, and in dest."""


def _repeated(states: States, *, in_source: bool, in_dest: bool) -> Metadata:
    _, step, _, current = states
    others = sorted({name for each in states for name in each} - {*_BY_NAME})
    metadata = {
        name: _chosen(f"its {name}", *(each.get(name) for each in states)) for name in others
    }
    configurations = [settings_of(each) for each in states]
    settings = {
        name: _chosen(f"the property {name}", *(each.get(name) for each in configurations))
        for name in sorted({name for each in configurations for name in each} - DERIVED)
    }
    settings |= {name: each for name, each in settings_of(current).items() if name in DERIVED}
    columns = _Columns(
        is_mapped=any(mapping_mode(each) != "none" for each in (step, current)),
        by_id=reads_by_id(step) or reads_by_id(current),
        in_source=in_source,
        in_dest=in_dest,
        highest=max_id(current),
    )
    fields = columns.merged(*map(schema_fields, states))
    if columns.highest:
        settings[MAX_COLUMN_ID] = str(columns.highest)
    present = {name: each for name, each in metadata.items() if each is not None}
    present["schemaString"] = current.get("schemaString")
    present["configuration"] = {name: each for name, each in settings.items() if each is not None}
    return present if fields == schema_fields(current) else with_fields(present, fields)


def _chosen(what: str, previous: Any, step: Any, final: Any, current: Any) -> Any:
    """Return dest's item, or source's final one if only source changed it."""
    if step == previous or current in (step, final):
        return current
    if current == previous:
        return final
    raise UnmergeableTableError(
        "both sides changed the table differently. Make the same change on both sides, or "
        f"{_OR_TAKE}: {what}"
    )


@dataclass(slots=True)
class _Columns:
    """Dest's columns with a commit's changes. New ones get new ids if dest has theirs.

    `in_source` and `in_dest` report files that may have columns added by that side.
    """

    is_mapped: bool
    by_id: bool
    in_source: bool
    in_dest: bool
    highest: int

    def merged(self, *states: Sequence[Column]) -> list[Column]:
        """Return the columns, or the fields of a struct, for dest."""
        was, now, end, ours = (by_file_name(list(each), self.is_mapped) for each in states)
        fields = dict(ours)
        for name in dict.fromkeys((*now, *was)):
            if name not in was and name not in ours:
                self._add(fields, name, end.get(name, now[name]))
                continue
            column = self._chosen(was.get(name), now.get(name), end.get(name), ours.get(name))
            fields.pop(name) if column is None and name in fields else None
            if column is not None:
                fields[name] = column
        return [fields[name] for name in _order(was, now, ours, fields)]

    def _chosen(self, *states: Column | None) -> Column | None:
        previous, _, final, current = states
        plain = [each and self._compared(each) for each in states]
        nested = [_find_struct((each or {}).get("type")) for each in states]
        if all(nested) and len({_encoded(_with_struct(each, [])) for each in plain}) == 1:
            fields = self.merged(*(each["fields"] for each in nested if each))
            return {**(current or {}), "type": _with_struct((current or {})["type"], fields)}
        name = next(each["name"] for each in states[::-1] if each)
        if _chosen(f"the column {name!r}", *plain) == plain[3]:
            return current
        if final is None or current is None or previous is None:
            return final
        ids = dict(zip(column_ids(previous), column_ids(current), strict=False))
        renumbered: Column = _renumbered(
            final, {each: ids.get(each, each) for each in column_ids(final)}
        )
        return renumbered

    def _compared(self, column: Column) -> Column:
        column = without_mark(column)
        return column if self.by_id else _without_notes(column, COLUMN_ID)

    def _add(self, fields: dict[str, Column], file_name: str, column: Column) -> None:
        name = column["name"]
        twin = next((each for each in fields if fields[each]["name"].lower() == name.lower()), None)
        if twin is not None:
            if _without_notes(fields[twin]) != _without_notes(column):
                raise UnmergeableTableError(f"{_DIFFERENT_COLUMNS}: {name!r}")
            if self.in_source and self.in_dest:
                raise UnmergeableTableError(f"{_SAME_COLUMN}: {name!r}")
            if not self.in_source:
                return
            del fields[twin]
        elif self.by_id and self.in_source and min(column_ids(column), default=0) <= self.highest:
            raise UnmergeableTableError(f"{_ONE_ID}: {name!r}")
        ids = list(column_ids(column))
        if any(each <= self.highest for each in ids) and not (self.by_id and self.in_source):
            column = _renumbered(column, {old: self.highest + at for at, old in enumerate(ids, 1)})
        self.highest = max([self.highest, *column_ids(column)])
        fields[file_name] = column


_OR_TAKE = "take one side with source-wins or dest-wins, and repeat the other's changes"
_DIFFERENT_COLUMNS = (
    "both sides added one column differently. Rename it on one side if the table has column "
    f"mapping, or {_OR_TAKE}"
)
_SAME_COLUMN = (
    "both sides added the same column under two ids, which the files of both use. Rename it on one "
    "side, merge, copy its values to the other column, and drop it"
)
_ONE_ID = (
    "both sides added columns with one id, which the files of source use. Merge by rows with "
    f"rows(KEY), or {_OR_TAKE}"
)


def _check_columns(metadata: Metadata) -> None:
    fields = schema_fields(metadata)
    names = Counter(each["name"].lower() for each in fields)
    for name, count in names.most_common(1):
        if count > 1:
            raise UnmergeableTableError(
                "both sides gave different columns the same name. Rename the column on one side, "
                f"and merge again: {name!r}"
            )
    if mapping_mode(metadata) != "none" and not all(COLUMN_ID in notes_of(each) for each in fields):
        raise UnmergeableTableError(
            "one side enabled column mapping, and the other changed columns. Enable it on both "
            "sides, and merge again"
        )


def _order(*states: Mapping[str, Column]) -> list[str]:
    """Return the names of merged columns in dest's order, or in one that only source changed."""
    was, now, ours, fields = states
    shared = [name for name in now if name in was and name in ours and name in fields]
    orders = [[name for name in each if name in shared] for each in (was, now, ours)]
    if orders[0] == orders[1] or orders[1] == orders[2]:
        return list(fields)
    if orders[0] != orders[2]:
        raise UnmergeableTableError(f"both sides changed the order of columns: {_OR_TAKE}")
    return list(dict.fromkeys((*orders[1], *fields)))


def _find_struct(kind: Any) -> Mapping[str, Any] | None:
    """Return the only struct in a type: itself, or that of elements or values."""
    while isinstance(kind, dict) and kind.get("type") in ("array", "map"):
        kind = kind.get("elementType", kind.get("valueType"))
    return kind if isinstance(kind, dict) and kind.get("type") == "struct" else None


def _with_struct(kind: Any, fields: Sequence[Column]) -> Any:
    """Return a type, or a column, with other fields in its struct."""
    if kind.get("type") == "struct" and "fields" in kind:
        return {**kind, "fields": fields}
    part = next(
        each for each in ("elementType", "valueType", "type") if isinstance(kind.get(each), dict)
    )
    return {**kind, part: _with_struct(kind[part], fields)}


def _encoded(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _without_notes(value: Any, *names: str) -> Any:
    """Strip column metadata from a schema, by default the fields for column mapping."""
    dropped = names or (COLUMN_ID, PHYSICAL)
    if isinstance(value, list):
        return [_without_notes(each, *dropped) for each in value]
    if not isinstance(value, dict):
        return value
    kept = (each for each in value.items() if each[0] not in dropped)
    return {name: _without_notes(each, *dropped) for name, each in kept}


def _check_expressions(before: Metadata, source: Metadata, dest: Metadata) -> None:
    """Reject new expressions of a side with columns that the other changed."""
    old = columns_of(before)
    for one, other in ((source, dest), (dest, source)):
        now = columns_of(other)
        names = [
            each["name"]
            for file_name, each in old.items()
            if (column := now.get(file_name)) is None
            or (column["name"], column["type"]) != (each["name"], each["type"])
        ]
        for text in expressions_of(one) - expressions_of(before):
            for name in names:
                if name.lower() in text.lower():
                    raise UnmergeableTableError(
                        "a side changed a column in an expression that the other side added. Drop "
                        f"the expression, merge, and add it again: {name!r} in {text}"
                    )


def _renumbered(value: Any, ids: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumbered(each, ids) for each in value]
    if not isinstance(value, dict):
        return value
    if COLUMN_ID in value:
        return {**value, COLUMN_ID: ids[int(value[COLUMN_ID])]}
    return {name: _renumbered(each, ids) for name, each in value.items()}
