"""Rewrites of the file paths in a Delta table's log. Nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparklake.delta_log.actions import OF_FILES, decode_actions, encode_actions, said_of
from sparklake.delta_log.paths import is_relative_path, name_of, vector_path
from sparklake.graveler.arrow_columns import with_column

Rewrite = Callable[[Sequence[dict[str, Any]]], None]
"""A function that edits the file fields of actions: paths and deletion vectors."""

Resolve = Callable[[pa.Array], pa.Array]
"""A function from file names below the table to percent-encoded addresses."""

_VECTOR = "deletionVector"

_Slot = tuple[dict[str, Any], str, str]
"""A mapping, one of its keys, and the file name whose address belongs there."""


def rewritten_actions(body: bytes, name: str, rewrite: Rewrite) -> list[dict[str, Any]]:
    """Return the actions of a commit with other paths; raise CorruptFileError."""
    actions = decode_actions(body, name)
    rewrite(list(said_of(actions, *OF_FILES)))
    return actions


def rewritten_commit(body: bytes, name: str, rewrite: Rewrite) -> bytes:
    """Return a commit with other paths; raise CorruptFileError."""
    return encode_actions(rewritten_actions(body, name, rewrite))


def rewritten_batch(batch: pa.RecordBatch, rewrite: Rewrite) -> pa.RecordBatch:
    """Return the actions of a checkpoint with other paths."""
    for name in OF_FILES:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = _rewritten_files(batch.column(at), rewrite)
            batch = with_column(batch, batch.schema.field(at), column)
    return batch


def _rewritten_files(files: pa.StructArray, rewrite: Rewrite) -> pa.StructArray:
    """Return files with other paths and otherwise equal fields."""
    fields = [each for each in files.type if each.name in ("path", _VECTOR)]
    chosen = pa.StructArray.from_arrays(
        [files.field(each.name) for each in fields], fields=fields, mask=files.is_null()
    )
    rows = chosen.to_pylist()
    rewrite([row for row in rows if row is not None])
    rewritten = pa.array(rows, chosen.type)
    parts = [
        rewritten.field(each.name) if each in fields else files.field(each.name)
        for each in files.type
    ]
    return pa.StructArray.from_arrays(parts, fields=list(files.type), mask=files.is_null())


def to_addresses(resolve: Resolve) -> Rewrite:
    """Return a rewrite of all relative paths to addresses.

    A deletion vector's path is part of a file's identity, so it is rewritten in all actions.
    """

    def rewrite(files: Sequence[dict[str, Any]]) -> None:
        slots = [slot for said in files for slot in _slots(said)]
        addresses = resolve(pa.array([name for _, _, name in slots], pa.string()))
        for (holder, key, _), address in zip(slots, addresses.to_pylist(), strict=True):
            holder[key] = address

    return rewrite


def _slots(said: dict[str, Any]) -> Iterator[_Slot]:
    """Yield the places of an action's relative paths. Deletion vectors become absolute."""
    path, vector = said.get("path"), said.get(_VECTOR)
    if path is not None and is_relative_path(path):
        yield said, "path", name_of(path)
    if vector and vector["storageType"] == "u":
        vector["storageType"] = "p"
        yield vector, "pathOrInlineDv", vector_path(vector["pathOrInlineDv"])
