"""Strategies that take one of the two sides, by the fields of their entries."""

from __future__ import annotations

import pyarrow as pa

from sparklake.udfs.strategies.decisions import Take
from sparklake.udfs.strategies.object_access import Objects


def newest_wins(conflicts: pa.RecordBatch, objects: Objects) -> list[Take]:
    """Take the object with the later mtime. A changed object wins over a deletion.

    The conflict stays if both have the same microsecond.
    """
    return _higher(conflicts, "mtime")


def larger_wins(conflicts: pa.RecordBatch, objects: Objects) -> list[Take]:
    """Take the larger object. A changed object wins over a deletion.

    The conflict stays if both have the same size.
    """
    return _higher(conflicts, "size")


def _higher(conflicts: pa.RecordBatch, field: str) -> list[Take]:
    sides = [conflicts.column(side) for side in ("source", "dest")]
    values = [side.field(field).cast(pa.int64()).to_pylist() for side in sides]
    there = [side.is_valid().to_pylist() for side in sides]
    return [
        _of_two(source if has_source else None, dest if has_dest else None)
        for source, dest, has_source, has_dest in zip(*values, *there, strict=True)
    ]


def _of_two(source: int | None, dest: int | None) -> Take:
    if source is None:
        return Take.DEST
    if dest is None or source > dest:
        return Take.SOURCE
    return Take.DEST if dest > source else Take.CONFLICT
