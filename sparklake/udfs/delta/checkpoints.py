"""Checkpoints of a Delta table's log as Arrow tables: a row is an action."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.udfs.delta.actions import Said
from sparklake.udfs.delta.paths import name_of

SECOND_FORM = ("checkpointMetadata", "sidecar")
"""Is the kinds of actions that only checkpoints of Delta's second form have."""


def has_any(actions: pa.RecordBatch | pa.Table, *kinds: str) -> bool:
    """Tells whether there is an action of some kinds in a checkpoint."""
    there = (actions.column(kind) for kind in kinds if kind in actions.schema.names)
    return any(each.null_count < len(each) for each in there)


def said_in(actions: pa.Table, kind: str) -> Iterator[Said]:
    """Yields what the actions of a kind say in a checkpoint, as a commit would."""
    if kind in actions.column_names:
        rows = actions[kind].combine_chunks().drop_null()
        yield from (_plain(each.as_py(), rows.type) for each in rows)


def adds_in(actions: pa.Table, names: Collection[str] | None) -> Iterator[Said]:
    """Yields what a checkpoint says of files that are live: of all, or of some names."""
    if "add" not in actions.column_names:
        return
    adds = actions["add"].combine_chunks().drop_null()
    if names is not None:
        paths = pc.struct_field(adds, "path").to_pylist()
        adds = adds.filter(pa.array((name_of(each) in names for each in paths), pa.bool_()))
    for each in adds:
        said = _plain(each.as_py(), adds.type)
        yield {name: value for name, value in said.items() if not name.endswith("_parsed")}


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Returns a value of Parquet as the log's JSON has it: maps as objects, nulls left out."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        fields = ((each.name, _plain(value[each.name], each.type)) for each in kind)
        return {name: each for name, each in fields if each is not None}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(each, kind.value_type) for each in value]
    return value
