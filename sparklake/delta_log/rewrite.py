"""Rewrites of the file paths in a Delta table's log. Nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
_VECTOR_PATH = "pathOrInlineDv"


def rewritten_actions(body: bytes, name: str, rewrite: Rewrite) -> list[dict[str, Any]]:
    """Return the actions of a commit with other paths."""
    actions = decode_actions(body, name)
    rewrite(list(said_of(actions, *OF_FILES)))
    return actions


def rewritten_commit(body: bytes, name: str, rewrite: Rewrite) -> bytes:
    return encode_actions(rewritten_actions(body, name, rewrite))


def rewritten_batch(batch: pa.RecordBatch, rewrite: Rewrite) -> pa.RecordBatch:
    for name in OF_FILES:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = _rewritten_files(batch.column(at), rewrite)
            batch = with_column(batch, batch.schema.field(at), column)
    return batch


def _rewritten_files(files: pa.StructArray, rewrite: Rewrite) -> pa.StructArray:
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
        places = [place for said in files for place in relative_places(said)]
        addresses = resolve(pa.array([each.name for each in places], pa.string()))
        for place, address in zip(places, addresses.to_pylist(), strict=True):
            place.replace(address)

    return rewrite


@dataclass(frozen=True, slots=True)
class RelativePlace:
    """A relative path in an action: a file's or a deletion vector's.

    `name` is the file name below the table.
    """

    holder: dict[str, Any]
    key: str
    name: str

    @property
    def text(self) -> str:
        """The path as the log spells it."""
        text: str = self.holder[self.key]
        return text

    def replace(self, address: str) -> None:
        self.holder[self.key] = address
        if self.key == _VECTOR_PATH:
            self.holder["storageType"] = "p"


def relative_places(said: dict[str, Any]) -> Iterator[RelativePlace]:
    path, vector = said.get("path"), said.get(_VECTOR)
    if path is not None and is_relative_path(path):
        yield RelativePlace(said, "path", name_of(path))
    if vector and vector.get("storageType") == "u":
        yield RelativePlace(vector, _VECTOR_PATH, vector_path(vector[_VECTOR_PATH]))


def restore_relative(said: dict[str, Any], find: Callable[[str], str | None]) -> None:
    """Replace an action's absolute paths with the relative ones from `find`."""
    vector = said.get(_VECTOR) or {}
    for holder, key in ((said, "path"), (vector, _VECTOR_PATH)):
        relative = find(holder[key]) if key in holder else None
        if relative is not None:
            holder[key] = relative
            if holder is vector:
                vector["storageType"] = "u"
