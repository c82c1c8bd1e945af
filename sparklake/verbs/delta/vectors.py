"""Deletion vectors of tables in trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ids import MetaRangeId
from sparklake.metadata.delta.actions import Fields
from sparklake.metadata.delta.vectors import decode_vector, inline_rows, vector_place
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.vectors.bitmaps import Positions
from sparklake.stores.objects import open_object
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import find_in_tree


@dataclass(slots=True)
class VectorReader:
    """Reads the deletion vectors of one table, whose files may be in one of several trees only."""

    context: Context
    trees: Sequence[MetaRangeId]
    table: bytes
    _bodies: dict[str, bytes] = field(default_factory=dict)
    """The files by path: one file often has the vectors of many data files."""

    def deleted_rows(self, fields: Fields) -> Positions:
        descriptor = fields.get("deletionVector")
        try:
            place = vector_place(descriptor) if descriptor else None
            if descriptor is None or place is None:
                return inline_rows(fields)
            if place.path not in self._bodies:
                self._bodies[place.path] = (
                    _read_absolute(place.path) if place.is_absolute else self._read(place.path)
                )
            return decode_vector(descriptor, self._bodies[place.path])
        except (CorruptFileError, MissingFileError) as error:
            raise UnmergeableTableError(
                f"the deleted rows of {fields['path']} cannot be read ({error})"
            ) from error

    def _read(self, path: str) -> bytes:
        for tree in self.trees:
            info = find_in_tree(self.context, tree, self.table + path.encode())
            if info is not None:
                return read_body(info, "the table")
        raise MissingFileError(f"{path} is not in the table")


def _read_absolute(uri: str) -> bytes:
    store, key = open_object(uri)
    return store.get(key)
