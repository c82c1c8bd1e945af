"""Differences by folder, in all, and as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sparklake.cli.output import Output
from sparklake.cli.text import shown, size
from sparklake.documents import Document, diff_tree_document, folder_diff_document

if TYPE_CHECKING:
    from sparklake.verbs.base.differences import Differences, DiffTree

MOST_LINES = 100
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "conflict": "!"}


def print_summary(out: Output, found: Differences) -> None:
    """Prints how many objects and bytes differ in all."""
    document = folder_diff_document(found.summary())
    out.one(document, counted(document))


def print_folders(out: Output, found: Differences, depth: int) -> None:
    """Prints what differs in each folder, as it comes."""

    def line(each: Document) -> str:
        return f"{shown(each['path'])}  {counted(each)}"

    out.many(map(folder_diff_document, found.by_folder(depth)), line)


def print_tree(out: Output, found: Differences, depth: int) -> None:
    """Prints the folders that differ as a tree."""
    tree = found.tree(depth, MOST_LINES)
    lines = [
        f"{shown(tree.total.path) or '.'}  {counted(folder_diff_document(tree.total))}",
        *drawn(tree),
    ]
    out.one(diff_tree_document(tree), "\n".join(lines))


def counted(each: Document) -> str:
    """Returns how many objects and bytes differ, on one line."""
    counts = [f"{sign}{each[kind]:,}" for kind, sign in _SIGNS.items() if each[kind]]
    bytes_moved = [
        f"{sign}{size(each[name])}"
        for name, sign in (("bytes_added", "+"), ("bytes_removed", "-"))
        if each[name]
    ]
    return "  ".join(filter(None, [" ".join(counts), " ".join(bytes_moved)])) or "no difference"


def drawn(tree: DiffTree, before: str = "") -> Iterator[str]:
    """Yields the lines of what is below a folder, at most so many of one level."""
    children: Sequence[DiffTree] = list(tree.children.values())
    more = len(children) - MOST_LINES
    for number, child in enumerate(children[:MOST_LINES], start=1):
        is_last = number == len(children)
        name = child.total.path[len(tree.total.path) :]
        numbers = counted(folder_diff_document(child.total))
        yield f"{before}{'`-- ' if is_last else '|-- '}{shown(name)}  {numbers}"
        yield from drawn(child, f"{before}{'    ' if is_last else '|   '}")
    if more > 0:
        yield f"{before}`-- ... and {more:,} more"
