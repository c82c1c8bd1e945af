"""Differences inside text objects, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from sparklake.errors import MissingFileError
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.rows.diffs import DiffRow, ThreeWayRow
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import merge_base
from sparklake.verbs.base.read import purged_error
from sparklake.verbs.base.resolve import kept_commit
from sparklake.verbs.base.snapshot import Snapshot, open_snapshot
from sparklake.verbs.diffs.differences import diff_refs, diff_uncommitted
from sparklake.visible import visible_line

MOST_BYTES = 1 << 20
MOST_LINES = 20_000
"""The limits of each side. difflib takes half a second for that many lines."""

_ID_DIGITS = 12
_NO_END = "\n\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class TextDiff:
    """A differing object with the lines of its unified diff, or the reason why there is none."""

    row: DiffRow | ThreeWayRow
    lines: tuple[str, ...] = ()
    reason: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the lines and the reason as JSON."""
        return {"lines": list(self.lines), "reason": self.reason}


def diff_texts(
    context: Context, left: str, right: str | None, prefix: str, *, three_dot: bool
) -> Iterator[TextDiff]:
    """Yield two refs' differences, or a branch's staged changes, with their lines."""
    if right is None:
        rows, ids = diff_uncommitted(context, left, prefix), [f"{left}@", left]
        refs = [f"{left}@", left]
    else:
        commit, other = (kept_commit(context, ref) for ref in (left, right))
        start = merge_base(context, other, commit) if three_dot else commit
        ids, refs = [start.id, other.id], [left, right]
        rows = diff_refs(context, ids[0], ids[1], prefix, three_dot=False)
    sides = [open_snapshot(context, each, readable=True) for each in ids]
    return (_text_diff(context, sides, refs, row) for row in rows)


def three_way_texts(
    context: Context, rows: Iterable[ThreeWayRow], left: str, right: str
) -> Iterator[TextDiff]:
    """Yield the rows of a three-way diff with their lines.

    A conflict has those that left and right changed since the merge base.
    """
    commits = [kept_commit(context, ref) for ref in (left, right)]
    base = merge_base(context, *reversed(commits))
    sides = [open_snapshot(context, each.id, readable=True) for each in (*commits, base)]
    refs = [left, right, base.id[:_ID_DIGITS]]
    return (_text_diff(context, sides, refs, row) for row in rows)


def _text_diff(
    context: Context, sides: list[Snapshot], refs: list[str], row: DiffRow | ThreeWayRow
) -> TextDiff:
    if isinstance(row, DiffRow) and row.left_checksum == row.right_checksum:
        return TextDiff(row, reason="same content")
    pairs = [(0, 1)]
    if row.type is ChangeType.CONFLICT:
        pairs = [(2, 0), (2, 1)]
    infos = [side.stat(row.path) if side.exists(row.path) else None for side in sides]
    if any(each and each.size > MOST_BYTES for each in infos):
        return TextDiff(row, reason="too large")
    bodies = [_body(context, info, ref) for info, ref in zip(infos, refs, strict=True)]
    if any(b"\0" in each for each in bodies):
        return TextDiff(row, reason="binary")
    texts = [_lines(each) for each in bodies]
    if max(map(len, texts)) > MOST_LINES:
        return TextDiff(row, reason="too large")
    names = [
        "/dev/null" if info is None else visible_line(f"{ref}/{row.path}")
        for info, ref in zip(infos, refs, strict=True)
    ]
    lines = "\n".join(
        line
        for old, new in pairs
        for line in unified_diff(texts[old], texts[new], names[old], names[new], lineterm="")
    )
    return TextDiff(row, tuple(lines.split("\n")) if lines else ())


def _body(context: Context, info: ObjectInfo | None, ref: str) -> bytes:
    if info is None:
        return b""
    try:
        return read_body(info, ref)
    except MissingFileError as error:
        raise purged_error(context, info, error) from error


def _lines(body: bytes) -> list[str]:
    """Split text into lines without their ends, and escape invalid UTF-8."""
    *lines, tail = body.decode(errors="backslashreplace").split("\n")
    return [*lines, tail + _NO_END] if tail else lines
