"""Growing values in table metadata: column ids and identity high-water marks."""

from __future__ import annotations

import math
from collections import defaultdict

from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.delta.union.schemas import (
    ENABLED_AT,
    ENABLED_TIME,
    IDENTITY,
    IDENTITY_MARK,
    MAX_COLUMN_ID,
    TIMESTAMPS,
    Column,
    Metadata,
    columns_of,
    is_enabled,
    notes_of,
    schema_fields,
    settings_of,
    with_fields,
)
from sparklake.metadata.union.conflicts import UnmergeableTableError


def carried(metadata: Metadata, before: Metadata, version: int, time: int) -> Metadata:
    """Return metadata to write after `before`, as this version: no high-water mark moves back."""
    settings, old = settings_of(metadata), settings_of(before)
    derived = {
        name: each for name, each in settings.items() if name not in {ENABLED_AT, ENABLED_TIME}
    }
    if MAX_COLUMN_ID in old:
        derived[MAX_COLUMN_ID] = str(max(max_id(metadata), max_id(before)))
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


def max_id(metadata: Metadata) -> int:
    return int(settings_of(metadata).get(MAX_COLUMN_ID) or 0)


def with_marks_of(metadata: Metadata, other: Metadata) -> Metadata:
    maximum = max(max_id(metadata), max_id(other))
    settings = {**settings_of(metadata), **({MAX_COLUMN_ID: str(maximum)} if maximum else {})}
    return _with_marks({**metadata, "configuration": settings}, other)


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
