"""Trees of objects as plain dicts, and what differs between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sparklake.errors import MergeConflictError

Diff = list[tuple[str, str, int]]
"""Type, path and size of each row, by path."""


@dataclass(frozen=True)
class Content:
    """Is all by which two objects are the same: one of them elsewhere, or later, is no change."""

    body: bytes
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def checksum(self) -> str:
        return hashlib.md5(self.body).hexdigest()


Tree = dict[str, Content]
"""Contents by path."""

Changes = dict[str, "Content | None"]


def three_way(base: Tree, source: Tree, dest: Tree) -> Diff:
    """Returns what a merge would change in dest: the table, row by row."""
    rows = []
    for kind, path, size in differences(dest, source):
        if source.get(path) == base.get(path):
            continue
        rows.append((kind if dest.get(path) == base.get(path) else "conflict", path, size))
    return rows


def merged(base: Tree, source: Tree, dest: Tree, strategy: str | None) -> Tree:
    rows = three_way(base, source, dest)
    conflicts = [row for row in rows if row[0] == "conflict"]
    if conflicts and strategy is None:
        raise MergeConflictError("", conflicts, len(conflicts))
    taken = [path for kind, path, _ in rows if kind != "conflict" or strategy == "source-wins"]
    return changed(dest, {path: source.get(path) for path in taken})


def changed(tree: Mapping[str, Content], changes: Mapping[str, Content | None]) -> Tree:
    after = {**tree, **changes}
    return {path: content for path, content in after.items() if content is not None}


def below(tree: Mapping[str, Content], prefix: str) -> Tree:
    return {path: tree[path] for path in sorted(tree, key=str.encode) if path.startswith(prefix)}


def differences(left: Mapping[str, Content], right: Mapping[str, Content]) -> Diff:
    rows = []
    for path in sorted({*left, *right}, key=str.encode):
        before, after = left.get(path), right.get(path)
        if before != after:
            kind = "added" if before is None else "removed" if after is None else "changed"
            rows.append((kind, path, len((after or before or Content(b"")).body)))
    return rows
