"""Trees of objects as plain dicts, and what differs between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

Diff = list[tuple[str, str, int]]
"""Type, path and size of each row, by path."""


@dataclass(frozen=True)
class Content:
    """All by which two objects are the same: one of them elsewhere, or later, is no change.

    Imported objects have no content type, as in lakeFS.
    """

    body: bytes
    metadata: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/octet-stream"

    @property
    def checksum(self) -> str:
        return hashlib.md5(self.body).hexdigest()


Tree = dict[str, Content]
"""Contents by path."""

Changes = dict[str, "Content | None"]


def three_way(base: Tree, source: Tree, dest: Tree) -> Diff:
    """Return what a merge would change in dest: the table, row by row."""
    rows = []
    for kind, path, size in differences(dest, source):
        if source.get(path) == base.get(path):
            continue
        if dest.get(path) == base.get(path):
            rows.append((kind, path, size))
        elif not are_alike(source.get(path), dest.get(path)):
            rows.append(("conflict", path, size))
    return rows


def are_alike(one: Content | None, other: Content | None) -> bool:
    """Return whether two objects differ in their content types at most."""
    if one is None or other is None:
        return one is other
    return replace(one, content_type="") == replace(other, content_type="")


def imported(content: Content, present: Content | None) -> Content:
    """Return what an import of a content makes of an object, which it keeps if they are alike."""
    if present is not None and are_alike(content, present):
        return present
    return replace(content, content_type="")


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


FolderRow = tuple[str, int, int, int, int, int, int]
"""Path, how many were added, removed, changed, in conflict, bytes that came, and that went."""


def rolled_up(
    rows: Diff, left: Mapping[str, Content], right: Mapping[str, Content], prefix: str, depth: int
) -> list[FolderRow]:
    """Return rows by the folder of a depth below a prefix."""
    found: dict[str, list[int]] = {}
    for kind, path, _ in rows:
        parts = path[len(prefix) :].split("/")
        folder = prefix + "/".join(parts[:depth]) + "/" if len(parts) > depth else path
        counts = found.setdefault(folder if depth else "", [0] * 6)
        counts[["added", "removed", "changed", "conflict"].index(kind)] += 1
        if kind != "conflict":
            counts[4] += size_of(right.get(path))
            counts[5] += size_of(left.get(path))
    return [(folder, *counts) for folder, counts in found.items()]  # type: ignore[misc]


def size_of(content: Content | None) -> int:
    return 0 if content is None else len(content.body)
