"""A table at one moment: what lies under its path, to be listed and looked up."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.engine.rows import Rows
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.layering import plan_listing
from sparklake.graveler.range_lists import MetaRange
from sparklake.udfs.objects import ObjectInfo
from sparklake.verbs.context import Context
from sparklake.verbs.read import list_tree, listing_of_plan
from sparklake.verbs.resolve import Resolved, steadily
from sparklake.verbs.snapshot import Snapshot, snapshot_over
from sparklake.verbs.staged import Staged
from sparklake.verbs.tables.paths import table_folder


@dataclass(frozen=True, slots=True)
class TableVersion:
    """Is the objects under a path at one moment; `ref` is what errors call it."""

    ref: str
    path: str
    objects: Rows[ObjectInfo]
    snapshot: Snapshot

    @property
    def folder(self) -> str:
        """Returns what the paths of all its objects begin with."""
        return table_folder(self.path)


def open_table(context: Context, ref: str, path: str) -> TableVersion:
    """Returns the table under a path as it is at a ref now, to read its files.

    A branch's staged changes count. Raises ExpiredError.
    """
    start = key_prefix(table_folder(path))

    def read(found: Resolved) -> TableVersion:
        found.check_kept(context)
        sides, tree = Staged(context, start).sides(found.layers), found.tree(context)
        plan = plan_listing(tree.ranges, sides, prefix_interval(start))
        snapshot = snapshot_over(context, ref, tree, sides)
        return TableVersion(ref, path, listing_of_plan(context, plan, ref), snapshot)

    return steadily(context, ref, read)


def tree_table(context: Context, tree: MetaRange, what: str, path: str) -> TableVersion:
    """Returns the table under a path of a tree, of a commit or of none yet."""
    objects = list_tree(context, tree, table_folder(path), what)
    return TableVersion(what, path, objects, snapshot_over(context, what, tree))
