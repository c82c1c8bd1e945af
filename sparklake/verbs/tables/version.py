"""A table at one moment: its folder, its files and its URIs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklake.engine.lazy_rows import Rows
from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, object_key, prefix_interval
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import listing_of_plan
from sparklake.verbs.base.resolve import ResolvedRef, read_consistently
from sparklake.verbs.base.snapshot import Snapshot, snapshot_over
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.objects.owners import OwningTable, find_owner, mark_prefixes


def table_prefix(path: str) -> str:
    stripped = path.strip("/")
    if not stripped:
        raise InvalidInputError("a table needs a path below the root of the ref")
    object_key(f"{stripped}/")
    return f"{stripped}/"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A snapshot of the objects under a path, possibly in a table with metadata, its `owner`."""

    ref: str
    path: str
    objects: Rows[ObjectInfo]
    snapshot: Snapshot
    owner: OwningTable | None = None

    @property
    def folder(self) -> str:
        return table_prefix(self.path)

    @property
    def has_objects(self) -> bool:
        return next(iter(self.objects), None) is not None


def open_table(context: Context, ref: str, path: str) -> TableVersion:
    folder = table_prefix(path)

    def read(resolved: ResolvedRef) -> TableVersion:
        resolved.check_kept(context)
        layers = StagedLayers(context, key_prefix(folder), *mark_prefixes(folder))
        sides = layers.sides(resolved.layers)
        return tree_table(context, resolved.tree(context), ref, path, sides)

    return read_consistently(context, ref, read)


def tree_table(
    context: Context, tree: MetaRange, what: str, path: str, sides: Sequence[SideStream] = ()
) -> TableVersion:
    folder = table_prefix(path)
    plan = plan_listing(tree.ranges, sides, prefix_interval(key_prefix(folder)))
    objects = listing_of_plan(context, plan, what)
    snapshot = snapshot_over(context, what, tree, sides)
    owner = find_owner(context, tree.ranges, sides, folder)
    return TableVersion(what, path, objects, snapshot, owner)
