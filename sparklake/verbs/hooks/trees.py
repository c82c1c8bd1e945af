"""A hook's view of the lake: the tree to publish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklake.engine.lazy_rows import Rows
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.diffs import DiffRow
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import list_tree
from sparklake.verbs.base.snapshot import Snapshot, snapshot_over
from sparklake.verbs.diffs.diff import diff_trees
from sparklake.verbs.tables.read import read_table
from sparklake.verbs.tables.version import tree_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PublishedTree:
    """The tree of an event, maybe without a ref yet, and the tree before it."""

    _context: Context
    _ref: str
    _before: MetaRangeId
    _after: MetaRangeId

    @property
    def id(self) -> MetaRangeId:
        """The id of its metarange."""
        return self._after

    def objects(self, prefix: str = "") -> Rows[ObjectInfo]:
        """Return its objects."""
        return list_tree(self._context, self._tree, prefix, self._ref)

    def stat(self, path: str) -> ObjectInfo:
        """Return one object."""
        return self._snapshot.stat(path)

    def exists(self, path: str) -> bool:
        """Return whether an object exists at a path."""
        return self._snapshot.exists(path)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one object."""
        return read_body(self.stat(path), self._ref)

    def read(
        self,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        **options: Any,
    ) -> DataFrame:
        """Return the table under a path as a DataFrame."""
        table = tree_table(self._context, self._tree, self._ref, path)
        return read_table(self._context, table, format, options)

    def changes(self, prefix: str = "") -> Rows[DiffRow]:
        """Return the changes of the event; a created or deleted name has none."""
        before = self._context.trees.get(self._before)
        return diff_trees(self._context, before, self._tree, prefix, self._ref)

    @property
    def _tree(self) -> MetaRange:
        return self._context.trees.get(self._after)

    @property
    def _snapshot(self) -> Snapshot:
        return snapshot_over(self._context, self._ref, self._tree)
