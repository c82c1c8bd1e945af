"""Actions of a Delta log: a commit's JSON lines, or a checkpoint's rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.delta_log.paths import name_of
from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import BAD_JSON

Action: TypeAlias = Mapping[str, Any]
"""One action: its kind, such as `add`, and its fields."""

Fields: TypeAlias = Mapping[str, Any]

OF_FILES = ("add", "remove", "cdc")
"""The kinds of file actions."""


def decode_actions(body: bytes, name: str) -> list[dict[str, Any]]:
    """Decode the actions of a commit. Errors contain `name`."""
    try:
        actions = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
    except BAD_JSON as error:
        raise CorruptFileError(f"{name} of a Delta log is not JSON: {error}") from error
    if not all(isinstance(each, dict) for each in actions):
        raise CorruptFileError(f"{name} of a Delta log has a line that is not a JSON object")
    return actions


def encode_actions(actions: Iterable[Action]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in actions)


def fields_of(actions: Iterable[Action], *kinds: str) -> Iterator[dict[str, Any]]:
    return (each[kind] for each in actions for kind in kinds if each.get(kind) is not None)


@dataclass(frozen=True, slots=True)
class FileKey:
    """The identity of a file in Delta. The path is decoded, because writers escape differently."""

    path: str
    vector: str = ""

    @staticmethod
    def of(fields: Fields) -> FileKey:
        path, vector = name_of(fields["path"]), fields.get("deletionVector")
        if not vector:
            return FileKey(path)
        parts = map(vector.get, ("storageType", "pathOrInlineDv", "offset"))
        return FileKey(path, "|".join(map(str, parts)))


SECOND_FORM = ("checkpointMetadata", "sidecar")
"""The kinds of actions in V2 checkpoints only."""


def has_any(actions: pa.RecordBatch | pa.Table, *kinds: str) -> bool:
    columns = (actions.column(kind) for kind in kinds if kind in actions.schema.names)
    return any(each.null_count < len(each) for each in columns)


def fields_in(actions: pa.Table, kind: str) -> Iterator[Fields]:
    """Convert a checkpoint's actions to those of a commit."""
    if kind in actions.column_names:
        rows = actions[kind].combine_chunks().drop_null()
        yield from (_plain(each.as_py(), rows.type) for each in rows)


def adds_in(actions: pa.Table, names: Collection[str] | None) -> Iterator[Fields]:
    """Yield a checkpoint's `add` fields for live files, by default all."""
    if "add" not in actions.column_names:
        return
    adds = actions["add"].combine_chunks().drop_null()
    if names is not None:
        paths = pc.struct_field(adds, "path").to_pylist()
        adds = adds.filter(pa.array((name_of(each) in names for each in paths), pa.bool_()))
    for each in adds:
        fields = _plain(each.as_py(), adds.type)
        yield {name: value for name, value in fields.items() if not name.endswith("_parsed")}


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Convert a Parquet value to the log's JSON form: maps as objects, nulls omitted."""
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
