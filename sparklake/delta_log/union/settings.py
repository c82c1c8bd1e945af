"""Changes of a table's metadata on both sides, and values that only grow."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparklake.delta_log.union.log_sides import LogSide
from sparklake.delta_log.union.schemas import (
    COLUMN_ID,
    DERIVED,
    ENABLED_AT,
    ENABLED_TIME,
    IDENTITY,
    IDENTITY_MARK,
    MAX_COLUMN_ID,
    TIMESTAMPS,
    Column,
    Metadata,
    columns_of,
    decoded_schema,
    is_enabled,
    mapping_mode,
    notes_of,
    same_metadata,
    schema_fields,
    settings_of,
    without_mark,
)
from sparklake.unions.conflicts import UnmergeableTableError


def with_fields(metadata: Metadata, fields: Sequence[Column]) -> Metadata:
    schema = {**decoded_schema(metadata), "fields": fields}
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return {**metadata, "schemaString": text}


def carried(metadata: Metadata, before: Metadata, version: int, time: int) -> Metadata:
    """Return metadata to write after `before`, as this version: no high-water mark moves back."""
    settings, old = settings_of(metadata), settings_of(before)
    derived = {
        name: each for name, each in settings.items() if name not in {ENABLED_AT, ENABLED_TIME}
    }
    if MAX_COLUMN_ID in old:
        derived[MAX_COLUMN_ID] = str(max(_max_id(metadata), _max_id(before)))
    if is_enabled(metadata, TIMESTAMPS):
        if not is_enabled(before, TIMESTAMPS):
            derived |= {ENABLED_AT: str(version), ENABLED_TIME: str(time)}
        else:
            derived |= {name: old[name] for name in (ENABLED_AT, ENABLED_TIME) if name in old}
    if derived != settings:
        metadata = {**metadata, "configuration": derived}
    return _with_marks(metadata, before)


def _with_marks(metadata: Metadata, before: Metadata) -> Metadata:
    earlier = columns_of(before)
    fields = [
        _with_mark(column, earlier.get(name, column))
        for name, column in columns_of(metadata).items()
    ]
    return metadata if fields == schema_fields(metadata) else with_fields(metadata, fields)


def _with_mark(column: Column, before: Column) -> Column:
    if _step(column) and _step(before) and _mark(before) > _mark(column):
        mark = notes_of(before)[IDENTITY_MARK]
        return {**column, "metadata": {**notes_of(column), IDENTITY_MARK: mark}}
    return column


def _step(column: Column) -> int:
    return int(notes_of(column).get(IDENTITY + "step") or 0)


def _mark(column: Column) -> float:
    """Return the high-water mark of an identity column, an integer with the sign of its step."""
    mark = notes_of(column).get(IDENTITY_MARK)
    if mark is None:
        return -math.inf
    return int(mark) if _step(column) > 0 else -int(mark)


def _max_id(metadata: Metadata) -> int:
    return int(settings_of(metadata).get(MAX_COLUMN_ID) or 0)


# --- both sides -----------------------------------------------------------------------------------


def metadata_steps(base: LogSide, source: LogSide, dest: LogSide) -> dict[int, Metadata]:
    """Return the metadata after each repeated commit of source that has some, by version.

    If only source changed the metadata, it is source's, and if only dest did, dest's. If both did,
    columns that source added follow those of dest.
    """
    steps = {each.version: last for each in source.own if (last := each.last("metaData"))}
    ours, theirs, before = dest.metadata or {}, source.metadata or {}, base.metadata
    if same_metadata(ours, before):
        if not same_metadata([ours, *steps.values()][-1], theirs):
            raise UnmergeableTableError(OTHER_ORDER)
        return steps
    if same_metadata(theirs, before) or same_metadata(theirs, ours):
        return {version: _with_marks_of(ours, each) for version, each in steps.items()}
    if before is None:
        raise UnmergeableTableError("the table was created on both sides")
    return _combined(source, dest, steps, before)


OTHER_ORDER = (
    "dest already has some of source's changes to the table's schema, properties or protocol, in a "
    "different order"
)


def _with_marks_of(metadata: Metadata, other: Metadata) -> Metadata:
    maximum = max(_max_id(metadata), _max_id(other))
    settings = {**settings_of(metadata), **({MAX_COLUMN_ID: str(maximum)} if maximum else {})}
    return _with_marks({**metadata, "configuration": settings}, other)


def _combined(
    source: LogSide, dest: LogSide, steps: Mapping[int, Metadata], before: Metadata
) -> dict[int, Metadata]:
    previous, current = source.start().get("metaData"), dest.metadata or {}
    combined = {}
    for commit in source.commits:
        metadata = commit.last("metaData")
        if metadata is None:
            continue
        if commit.version in steps:
            added = None if previous is None else _added_columns(previous, metadata)
            is_remapped = mapping_mode(metadata) != mapping_mode(current)
            if added is None or is_remapped or metadata.get("id") != current.get("id"):
                ours, theirs = (
                    ", ".join(_changes(before, each.metadata or {})) for each in (dest, source)
                )
                raise UnmergeableTableError(
                    f"both sides changed the table's schema or properties differently: source "
                    f"changed {theirs}; dest changed {ours}"
                )
            has_files = any(each.adds for each in source.commits if each.version >= commit.version)
            current = _extended(current, metadata, added, has_files)
            combined[commit.version] = current
        previous = metadata
    if not columns_of(source.metadata or {}).keys() <= columns_of(current).keys():
        raise UnmergeableTableError(OTHER_ORDER)
    return combined


def _added_columns(before: Metadata, after: Metadata) -> list[Column] | None:
    """Return the new columns of a table, or None if it changed in another way."""
    old, new = columns_of(before), columns_of(after)
    same = with_fields(after, [each for name, each in new.items() if name in old])
    added = [each for name, each in new.items() if name not in old]
    return added if same_metadata(before, same) else None


def _changes(before: Metadata, after: Metadata) -> Iterator[str]:
    """Yield the names of what differs between a table's metadata."""
    old, new = columns_of(before), columns_of(after)
    for name in sorted({*old, *new}):
        pair = [each and without_mark(each) for each in (old.get(name), new.get(name))]
        if pair[0] != pair[1]:
            yield f"the column {(new.get(name) or old[name])['name']!r}"
    values, others = settings_of(before), settings_of(after)
    for name in sorted({*values, *others} - DERIVED):
        if values.get(name) != others.get(name):
            yield f"the property {name}"
    yield from (
        f"its {name}"
        for name in sorted({*before, *after} - {"schemaString", "configuration"})
        if before.get(name) != after.get(name)
    )


def _extended(
    current: Metadata, metadata: Metadata, added: Iterable[Column], has_files: bool
) -> Metadata:
    """Return dest's metadata with new columns of source, which get new ids if dest has theirs."""
    existing = columns_of(current)
    names = {each["name"].lower(): each for each in existing.values()}
    maximum = _max_id(current)
    fields = list(existing.values())
    mapped = {file_name: each for file_name, each in columns_of(metadata).items() if each in added}
    for file_name, column in mapped.items():
        if existing.get(file_name) == column:
            continue
        name = column["name"]
        if name.lower() in names:
            raise UnmergeableTableError(f"both sides added the column {name!r} differently")
        ids = list(_column_ids(column))
        taken = [each for each in ids if each <= maximum]
        if taken and (has_files or "delta.columnMapping.nested.ids" in json.dumps(column)):
            raise UnmergeableTableError(
                f"both sides added columns with the id {taken[0]}, and the files of source use it "
                f"for {name!r}. Add the column on dest first, and bring source up to date"
            )
        if taken:
            column = _renumbered(column, {old: maximum + at for at, old in enumerate(ids, 1)})
        maximum = max([maximum, *_column_ids(column)])
        fields.append(column)
    extended = with_fields(current, fields)
    if maximum:
        extended = {
            **extended,
            "configuration": {**settings_of(current), MAX_COLUMN_ID: str(maximum)},
        }
    return extended


def _column_ids(value: Any) -> Iterator[int]:
    """Yield the ids of a column and its nested fields."""
    if isinstance(value, dict):
        if COLUMN_ID in (value.get("metadata") or {}):
            yield int(value["metadata"][COLUMN_ID])
        value = [each for name, each in value.items() if name != "metadata"]
    if isinstance(value, list):
        for each in value:
            yield from _column_ids(each)


def _renumbered(value: Any, ids: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumbered(each, ids) for each in value]
    if not isinstance(value, dict):
        return value
    if COLUMN_ID in value:
        return {**value, COLUMN_ID: ids[int(value[COLUMN_ID])]}
    return {name: _renumbered(each, ids) for name, each in value.items()}


# --- identity columns -----------------------------------------------------------------------------


def check_identity(source: LogSide, dest: LogSide) -> None:
    """Reject values of an identity column that both sides may have generated."""
    if not any(map(_step, schema_fields(dest.metadata or {}))):
        return
    others = _generated(dest, "dest")
    for name, spans in _generated(source, "source").items():
        for low, high in spans:
            for start, end in others.get(name, ()):
                if max(low, start) < min(high, end):
                    column = columns_of(dest.metadata or {}).get(name, {"name": name})["name"]
                    raise UnmergeableTableError(
                        f"both sides generated values of the identity column {column!r}, source up "
                        f"to {abs(high)} and dest up to {abs(end)}, and some may be equal"
                    )


def _generated(side: LogSide, holder: str) -> dict[str, list[tuple[float, float]]]:
    """Return the spans of values that commits generated, by the high-water marks around each."""
    versions = {each.version for each in side.own}
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    previous = columns_of(side.start().get("metaData") or {})
    for commit in side.commits:
        metadata = commit.last("metaData")
        if metadata is None:
            continue
        columns = columns_of(metadata)
        for name, column in columns.items():
            low = _mark(previous[name]) if name in previous else -math.inf
            if _step(column) and commit.version in versions and _mark(column) != low:
                if _mark(column) < low:
                    raise UnmergeableTableError(
                        f"{holder} set back the identity column {column['name']!r}"
                    )
                spans[name].append((low, _mark(column)))
        previous = columns
    return spans
