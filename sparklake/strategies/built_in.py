"""Built-in strategies: the newer or larger object, and the union of text lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from sparklake.errors import StrategyError
from sparklake.strategies.decisions import Decision, Take
from sparklake.strategies.object_access import Objects

MAX_BYTES = 64 * 1024 * 1024
"""The largest object that is merged by lines."""

Entry = dict[str, Any]


def union_lines(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    """Write the lines of both sides, except lines removed by either side.

    Lines are in the order of dest, followed by those added only by source, in the order of source.
    The conflict remains if a side deleted the object, if a side contains a NUL byte and so is not
    text, or if both sides changed metadata or content type.

    Raises:
        StrategyError: An object is larger than MAX_BYTES.
    """
    return [_decision(row, objects) for row in conflicts.to_pylist()]


def merged_lines(base: bytes, source: bytes, dest: bytes) -> bytes:
    """Return the three-way union of lines, by count. Each ends with a newline."""
    listed = [_lines(text) for text in (base, source, dest)]
    counts = [Counter(lines) for lines in listed]
    remaining = {
        line: _count(*(count[line] for count in counts)) for line in {**counts[1], **counts[2]}
    }
    union = []
    for line in (*listed[2], *_beyond(listed[1], counts[2])):
        if remaining[line] > 0:
            remaining[line] -= 1
            union.append(line)
    return b"".join(line + b"\n" for line in union)


def _decision(row: dict[str, Any], objects: Objects) -> Decision:
    base, source, dest = row["base"], row["source"], row["dest"]
    if source is None or dest is None:
        return Take.CONFLICT
    attributes = _attributes(base, source, dest)
    if attributes is None:
        return Take.CONFLICT
    for each in filter(None, (base, source, dest)):
        if each["size"] > MAX_BYTES:
            raise StrategyError(
                f"the object {row['path'] or row['key']!r} has {each['size']:,} bytes on one "
                f"side, and union-lines merges at most {MAX_BYTES:,}: resolve it with another rule"
            )
    texts = [objects.read(each) if each else b"" for each in (base, source, dest)]
    if any(b"\0" in text for text in texts):
        return Take.CONFLICT
    merged = merged_lines(*texts)
    for take, side, text in ((Take.DEST, dest, texts[2]), (Take.SOURCE, source, texts[1])):
        if merged == text and attributes == _said(side):
            return take
    metadata, content_type = attributes
    return objects.write(merged, content_type, metadata)


def _attributes(
    base: Entry | None, source: Entry, dest: Entry
) -> tuple[dict[str, str], str] | None:
    """Return metadata and content type of the result, or None if both sides changed them."""
    in_base, in_source, in_dest = base and _said(base), _said(source), _said(dest)
    if in_source in (in_base, in_dest):
        return in_dest
    return in_source if in_dest == in_base else None


def _said(entry: Entry) -> tuple[dict[str, str], str]:
    return dict(entry["metadata"]), entry["content_type"]


def _lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _count(base: int, source: int, dest: int) -> int:
    if source >= base and dest >= base:
        return max(source, dest)
    if source <= base and dest <= base:
        return min(source, dest)
    return source + dest - base


def _beyond(lines: list[bytes], elsewhere: Counter[bytes]) -> list[bytes]:
    """Return the lines without a match elsewhere. Of equal lines, the first match first."""
    rest = Counter(elsewhere)
    more = []
    for line in lines:
        if rest[line] > 0:
            rest[line] -= 1
        else:
            more.append(line)
    return more


def newest_wins(conflicts: pa.RecordBatch, objects: Objects) -> list[Take]:
    """Select the newer object, or a change over a deletion. A tie remains a conflict."""
    return _higher(conflicts, "mtime")


def larger_wins(conflicts: pa.RecordBatch, objects: Objects) -> list[Take]:
    """Select the larger object, or a change over a deletion. A tie remains a conflict."""
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
