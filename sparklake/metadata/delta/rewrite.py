"""Rewrites of paths in Delta logs: relative in trees, absolute in copies for Spark."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparklake.graveler.arrow_batches import with_column
from sparklake.metadata.delta.actions import OF_FILES, decode_actions, encode_actions, fields_of
from sparklake.metadata.delta.paths import is_relative_path, name_of, vector_path

Rewrite = Callable[[Sequence[dict[str, Any]]], None]
"""A function to edit the paths and deletion vectors in actions' fields."""

Resolve = Callable[[pa.Array], pa.Array]
"""A function from file names below the table to percent-encoded addresses."""

_VECTOR = "deletionVector"
_VECTOR_PATH = "pathOrInlineDv"


def rewritten_actions(body: bytes, name: str, rewrite: Rewrite) -> list[dict[str, Any]]:
    actions = decode_actions(body, name)
    rewrite(list(fields_of(actions, *OF_FILES)))
    return actions


def rewritten_commit(body: bytes, name: str, rewrite: Rewrite) -> bytes:
    return encode_actions(rewritten_actions(body, name, rewrite))


def rewritten_batch(batch: pa.RecordBatch, rewrite: Rewrite) -> pa.RecordBatch:
    for name in OF_FILES:
        batch = rewritten_columns(batch, name, ("path", _VECTOR), rewrite)
    return batch


def rewritten_columns(
    batch: pa.RecordBatch, kind: str, names: Container[str], rewrite: Rewrite
) -> pa.RecordBatch:
    """Rewrite the given fields in actions of a kind."""
    at = batch.schema.get_field_index(kind)
    if at < 0 or batch.column(at).null_count == len(batch):
        return batch
    files = batch.column(at)
    fields = [each for each in files.type if each.name in names]
    columns = [files.field(each.name) for each in fields]
    paths = pa.StructArray.from_arrays(columns, fields=fields, mask=files.is_null())
    rows = paths.to_pylist()
    rewrite([row for row in rows if row is not None])
    rewritten = pa.array(rows, paths.type)
    parts = [
        rewritten.field(each.name) if each in fields else files.field(each.name)
        for each in files.type
    ]
    column = pa.StructArray.from_arrays(parts, fields=list(files.type), mask=files.is_null())
    return with_column(batch, batch.schema.field(at), column)


def to_addresses(resolve: Resolve) -> Rewrite:
    """Return a rewrite of all relative paths, also in deletion vectors, to addresses."""

    def rewrite(files: Sequence[dict[str, Any]]) -> None:
        places = [place for fields in files for place in relative_places(fields)]
        addresses = resolve(pa.array([each.name for each in places], pa.string()))
        for place, address in zip(places, addresses.to_pylist(), strict=True):
            place.replace(address)

    return rewrite


@dataclass(frozen=True, slots=True)
class RelativePlace:
    """A relative path in an action. `name` is decoded, `text` is its spelling."""

    holder: dict[str, Any]
    key: str
    name: str

    @property
    def text(self) -> str:
        text: str = self.holder[self.key]
        return text

    def replace(self, address: str) -> None:
        self.holder[self.key] = address
        if self.key == _VECTOR_PATH:
            self.holder["storageType"] = "p"


def relative_places(fields: dict[str, Any]) -> Iterator[RelativePlace]:
    path, vector = fields.get("path"), fields.get(_VECTOR)
    if path is not None and is_relative_path(path):
        yield RelativePlace(fields, "path", name_of(path))
    if vector and vector.get("storageType") == "u":
        yield RelativePlace(vector, _VECTOR_PATH, vector_path(vector[_VECTOR_PATH]))


def restore_relative(fields: dict[str, Any], find: Callable[[str], str | None]) -> None:
    """Replace absolute paths in an action with the relative ones from `find`."""
    vector = fields.get(_VECTOR) or {}
    for holder, key in ((fields, "path"), (vector, _VECTOR_PATH)):
        relative = find(holder[key]) if key in holder else None
        if relative is not None:
            holder[key] = relative
            if holder is vector:
                vector["storageType"] = "u"
