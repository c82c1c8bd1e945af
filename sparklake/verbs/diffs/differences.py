"""Differences as rows, by folder, in total, and as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake.engine.lazy_rows import Row, Rows, RowShape
from sparklake.errors import InvalidInputError
from sparklake.rows.diffs import COUNTS, FOLDER_DDL, FOLDER_SCHEMA, FolderDiff, folder_rows
from sparklake.udfs.diffs import FolderBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_LEVELS = 100
_NODES_HELD = 10_000

FOLDERS: RowShape[FolderDiff] = RowShape(FOLDER_SCHEMA, FOLDER_DDL, folder_rows)


@dataclass(frozen=True, slots=True)
class Differences(Rows[Row]):
    """Differences, one row per object, with sums by folder."""

    prefix: str = ""

    def by_folder(self, depth: int = 1) -> FolderDiffs:
        """Return the differences of each folder at a depth below the prefix.

        Objects above that depth have their own rows.
        """
        if not 1 <= depth <= MOST_LEVELS:
            raise InvalidInputError(
                f"a depth of {depth} is invalid: choose 1 to {MOST_LEVELS} levels"
            )
        return FolderDiffs(self.encoded_as(FOLDERS, FolderBatch(self.prefix, depth)))

    def summary(self) -> FolderDiff:
        """Return the number of different objects, and their bytes."""
        total = FolderDiff("")
        for each in self.encoded_as(FOLDERS, FolderBatch(self.prefix, 0)):
            total = total.plus(each)
        return total

    def tree(self, depth: int = 3, most: int = 100) -> DiffTree:
        """Return the differing folders as a tree of at most `depth` levels.

        The deepest levels, except the first, are dropped to keep at most `most` nodes.
        """
        tree = DiffTree(FolderDiff(self.prefix))
        for each in self.by_folder(depth):
            tree.add(each, depth)
            if tree.size > max(_NODES_HELD, most):
                while depth > 1 and tree.size > most:
                    depth -= 1
                    tree = tree.folded(depth)
        while depth > 1 and tree.size > most:
            depth -= 1
            tree = tree.folded(depth)
        return tree


@dataclass(frozen=True, slots=True)
class FolderDiffs:
    """Differences by folder, in the byte order of paths. Iteration streams them."""

    _parts: Rows[FolderDiff]

    def __iter__(self) -> Iterator[FolderDiff]:
        held: FolderDiff | None = None
        for each in self._parts:
            if held is not None and held.path == each.path:
                held = held.plus(each)
                continue
            if held is not None:
                yield held
            held = each
        if held is not None:
            yield held

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table of FOLDER_SCHEMA, in memory."""
        rows = [[each.path, *(getattr(each, name) for name in COUNTS)] for each in self]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return pa.table(columns or [[]] * len(FOLDER_SCHEMA), schema=FOLDER_SCHEMA)

    def to_df(self) -> DataFrame:
        """Return the rows as a Spark DataFrame, computed by its tasks, in no fixed order."""
        # Not at the top: reading must not pay for importing Spark.
        from sparklake.frames.diffs import summed

        return summed(self._parts.to_df(), "path", COUNTS)


@dataclass(slots=True)
class DiffTree:
    """The total of a folder's differences, and its folders and objects."""

    total: FolderDiff
    children: dict[str, DiffTree] = field(default_factory=dict)
    size: int = 1
    """The number of nodes, including this one."""

    def add(self, row: FolderDiff, depth: int) -> int:
        """Add a row up to `depth` levels below; return the number of new nodes."""
        self.total = self.total.plus(row)
        rest = row.path[len(self.total.path) :]
        if not rest or not depth:
            return 0
        head = self.total.path + rest[: rest.find("/") + 1 or None]
        made = int(head not in self.children)
        child = self.children.setdefault(head, DiffTree(FolderDiff(head)))
        made += child.add(row, depth - 1)
        self.size += made
        return made

    def folded(self, depth: int) -> DiffTree:
        """Return the tree without deeper levels."""
        if not depth:
            return DiffTree(self.total)
        children = {name: each.folded(depth - 1) for name, each in self.children.items()}
        return DiffTree(self.total, children, 1 + sum(each.size for each in children.values()))
