"""Verbs that read: list, stat, cat, diff, log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sparklake.engine.rows import Row, Rows, RowShape
from sparklake.errors import CorruptFileError, MissingFileError, ObjectNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.keys import Interval, key_prefix, object_key, prefix_interval, successor
from sparklake.graveler.planning import (
    Plan,
    plan_apply,
    plan_diff,
    plan_listing,
    plan_three_way_diff,
)
from sparklake.graveler.ports import Layer, LayerKind
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.records import Record, is_tombstone
from sparklake.graveler.tables import read_ranges
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_object
from sparklake.udfs.objects import OBJECT_DDL, OBJECT_SCHEMA, ObjectInfo, object_info, object_rows
from sparklake.udfs.reading import (
    DIFF_DDL,
    DIFF_SCHEMA,
    DiffRow,
    diff_body,
    diff_rows,
    list_body,
    staged_diff_body,
    three_way_diff_body,
)
from sparklake.udfs.tasks import Workspace
from sparklake.verbs.context import Context
from sparklake.verbs.merge import merge_base
from sparklake.verbs.resolve import Resolved, get_branch, resolve, steadily
from sparklake.verbs.staged import staged_intervals, staged_sides

if TYPE_CHECKING:
    import pyarrow as pa

OBJECTS: RowShape[ObjectInfo] = RowShape(OBJECT_SCHEMA, OBJECT_DDL, object_rows)
DIFFS: RowShape[DiffRow] = RowShape(DIFF_SCHEMA, DIFF_DDL, diff_rows)


def list_objects(context: Context, ref: str, prefix: str) -> Rows[ObjectInfo]:
    """Returns the objects of a ref whose path begins with a prefix, in the byte order of paths."""
    start = key_prefix(prefix)

    def plan(found: Resolved) -> Plan:
        sides = staged_sides(context, found.layers, start)
        return plan_listing(context.tree(found.commit).ranges, sides, prefix_interval(start))

    return _rows(context, steadily(context, ref, plan), OBJECTS, list_body)


def stat_object(context: Context, ref: str, path: str) -> ObjectInfo:
    """Returns one object; raises ObjectNotFoundError."""
    key = object_key(path)

    def newest(found: Resolved) -> bytes | None:
        return next(_versions(context, context.tree(found.commit), found.layers, key), None)

    stored = steadily(context, ref, newest)
    if stored is None or is_tombstone(stored):
        raise ObjectNotFoundError(
            f"{ref!r} has no object {path!r}; `sparklake ls` shows what it has"
        )
    return object_info((key, stored), context.info.storage_namespace)


def read_object(context: Context, ref: str, path: str) -> bytes:
    """Returns the bytes of one object.

    Raises MissingFileError or CorruptFileError when the file at its address is gone or has another
    size than it had when it was added.
    """
    found = stat_object(context, ref, path)
    store, key = open_object(found.address)
    try:
        body = store.get(key)
    except MissingFileError as error:
        raise MissingFileError(
            f"{path!r} at {ref!r} is gone from {found.address}: it was moved or deleted outside "
            "of the lake; restore it there"
        ) from error
    if len(body) != found.size:
        raise CorruptFileError(
            f"{path!r} at {ref!r} has {len(body)} bytes at {found.address}, not {found.size}: "
            "it was overwritten outside of the lake; restore what was there"
        )
    return body


def diff_refs(
    context: Context, left: str, right: str, prefix: str, *, three_way: bool
) -> Rows[DiffRow]:
    """Returns what differs from left to right, each as committed.

    Three-way: what merging right into left would change in left, conflicts included.
    """
    dest, source = (resolve(context, ref).commit for ref in (left, right))
    within = prefix_interval(key_prefix(prefix))
    if not three_way:
        plan = plan_diff(context.tree(dest).ranges, context.tree(source).ranges, within)
        return _rows(context, plan, DIFFS, diff_body)
    base = merge_base(context, source, dest)
    trees = [context.tree(each).ranges for each in (base, source, dest)]
    plan = plan_three_way_diff(trees[0], trees[1], trees[2], within)
    return _rows(context, plan, DIFFS, three_way_diff_body)


def diff_uncommitted(context: Context, branch: str, prefix: str) -> Rows[DiffRow]:
    """Returns what is staged on a branch and would change it."""
    name, start = get_branch(context, branch).name, key_prefix(prefix)

    def plan(found: Resolved) -> Plan:
        base = context.tree(found.commit).ranges
        sides = staged_sides(context, found.layers, start)
        touched = staged_intervals(context, base, sides)
        return plan_apply(base, sides, touched).restricted(prefix_interval(start))

    return _rows(context, steadily(context, name, plan), DIFFS, staged_diff_body)


def log(context: Context, ref: str) -> Iterator[Commit]:
    """Yields the commits that a ref contains, by descending generation, then date."""
    start = resolve(context, ref).commit
    queue = [(-start.generation, -start.creation_date, start.id)]
    seen: set[CommitId] = {start.id}
    while queue:
        each = context.graph.ancestor(heappop(queue)[2])
        yield each
        for parent_id in each.parents:
            if parent_id not in seen:
                seen.add(parent_id)
                parent = context.graph.ancestor(parent_id)
                heappush(queue, (-parent.generation, -parent.creation_date, parent_id))


def _rows(
    context: Context,
    plan: Plan,
    shape: RowShape[Row],
    body: Callable[[Workspace, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Rows[Row]:
    return Rows(plan, shape, partial(body, context.workspace), context.runners)


def _versions(
    context: Context, base: MetaRange, layers: Sequence[Layer], key: bytes
) -> Iterator[bytes]:
    """Yields what layers, newest first, and then the base store of a key."""
    for layer in layers:
        if layer.kind is LayerKind.ROWS:
            row = context.refs.staging.row(layer.id, key)
        else:
            row = _find(context, staged_sides(context, [layer])[0].ranges, key)
        if row is not None:
            yield row[1]
    row = _find(context, base.ranges, key)
    if row is not None:
        yield row[1]


def _find(context: Context, ranges: Sequence[RangeInfo], key: bytes) -> Record | None:
    with scratch_folder() as scratch:
        point = Interval(key, successor(key))
        block = next(read_ranges(context.store, ranges, scratch, point), None)
        return block[0] if block else None
