"""Strategies as users write them, named `tests.support.strategies:NAME`."""

from __future__ import annotations

import pyarrow as pa

from sparklake.strategies import Both, Decision, Objects


def joined(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    """Write dest's bytes, a '+' and source's; leave conflicts with a deletion."""

    def decide(row: dict) -> Decision:
        if row["source"] is None or row["dest"] is None:
            return "conflict"
        source, dest = (objects.read(row[side]["address"]) for side in ("source", "dest"))
        return objects.write(dest + b"+" + source, "text/plain", {"made": "joined"})

    return [decide(row) for row in conflicts.to_pylist()]


def as_named(conflicts: pa.RecordBatch, objects: Objects) -> pa.Array:
    """Decide by the first part of each path, as an Arrow array."""
    return pa.array([path.partition("/")[0] for path in conflicts.column("path").to_pylist()])


def sources(conflicts: pa.RecordBatch, objects: Objects) -> tuple[str, ...]:
    return ("source",) * conflicts.num_rows


def bases(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return ["base"] * conflicts.num_rows


def again(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    """Write dest's object again."""
    sides = conflicts.column("dest").to_pylist()
    return [objects.write(objects.read(each["address"])) for each in sides]


def failing(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    raise ValueError("no idea what to do")


def short(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return ["dest"] * (conflicts.num_rows - 1)


def no_list(conflicts: pa.RecordBatch, objects: Objects) -> object:
    return "dest"


def unknown(conflicts: pa.RecordBatch, objects: Objects) -> list[str]:
    return ["ours"] * conflicts.num_rows


def number(conflicts: pa.RecordBatch, objects: Objects) -> list[int]:
    return [1] * conflicts.num_rows


def under_itself(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return [Both(path) for path in conflicts.column("path").to_pylist()]


def outside(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return [Both("../x")] * conflicts.num_rows


def too_much(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return [objects.write(b"", metadata={"a": "x" * 100_000})] * conflicts.num_rows


NOT_CALLABLE = 1


def take_of(key: int, column: str | None) -> str:
    takes = ["base", "source", "dest", "conflict", *([] if column else ["delete"])]
    return takes[key % len(takes)]


def row_takes(conflicts: pa.RecordBatch) -> list[str]:
    """Decide about rows by their ids."""
    keys = (each["id"] for each in conflicts.column("key").to_pylist())
    return list(map(take_of, keys, conflicts.column("column").to_pylist()))
