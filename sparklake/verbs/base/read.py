"""Listings and reads of objects."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.engine.explanation import LAYERED, TWO_WAY
from sparklake.engine.lazy_rows import Rows, RowShape
from sparklake.errors import CorruptFileError, MissingFileError, PurgedError
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.parquet_files import decode_parquet
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ports.registers import Purge
from sparklake.graveler.ranges import MetaRange, record_count
from sparklake.layout import purge_receipt_folder
from sparklake.namespace.addresses import OwnNamespace
from sparklake.rows.diffs import DIFF_SCHEMA, DiffRow, diff_rows
from sparklake.rows.objects import OBJECT_SCHEMA, ObjectInfo, object_info, object_rows
from sparklake.udfs.diffs import diff_body
from sparklake.udfs.objects import list_body
from sparklake.udfs.purges import Patterns
from sparklake.verbs.base.content import content_url, read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import ResolvedRef, read_consistently
from sparklake.verbs.base.snapshot import kept_object
from sparklake.verbs.base.staging import StagedLayers


def purged_error(context: Context, info: ObjectInfo, error: MissingFileError) -> MissingFileError:
    try:
        return _find_purged_error(context, info) or error
    except CorruptFileError as damage:
        return MissingFileError(
            f"{error}; a purge may have deleted it, but its receipt is unreadable: {damage}"
        )


def _find_purged_error(context: Context, info: ObjectInfo) -> PurgedError | None:
    own = OwnNamespace(context.info.storage_namespace)
    (address,) = own.canonical(pa.array([info.address])).to_pylist()
    for each in context.refs.purges.list():
        if info.path in Patterns(each.patterns) or (
            each.include_shared and _is_listed(context.store, each, address)
        ):
            why = f": {each.message}" if each.message else ""
            return PurgedError(
                f"{info.path!r} was purged from all of history by {each.who} (purge "
                f"{each.id}{why}); its record stays, but its bytes are permanently deleted",
                each.id,
                each.who,
                each.date,
            )
    return None


def _is_listed(store: ObjectStore, purge: Purge, address: str) -> bool:
    for part in store.list(purge_receipt_folder(purge.id)):
        what = f"the receipt {part.key} in {store.uri}"
        rows = decode_parquet(store.get(part.key), what, columns=["address"])
        if pc.any(pc.equal(rows.column("address"), address)).as_py():
            return True
    return False


OBJECTS: RowShape[ObjectInfo] = RowShape(OBJECT_SCHEMA, object_rows, hidden=frozenset({"address"}))
DIFFS: RowShape[DiffRow] = RowShape(DIFF_SCHEMA, diff_rows)


def list_objects(context: Context, ref: str, prefix: str) -> Rows[ObjectInfo]:
    """Return the objects of a ref below a prefix, in byte order."""
    start = key_prefix(prefix)

    def plan(resolved: ResolvedRef) -> Plan:
        sides = StagedLayers(context, start).sides(resolved.layers)
        return plan_listing(resolved.tree(context).ranges, sides, prefix_interval(start))

    return listing_of_plan(context, read_consistently(context, ref, plan), ref)


def find_in_tree(context: Context, tree: MetaRangeId, key: bytes) -> ObjectInfo | None:
    stored = context.open_ranges.lookup(context.trees.get(tree).ranges, key)
    return None if stored is None else object_info((key, stored), context.info.storage_namespace)


def list_tree(context: Context, tree: MetaRange, prefix: str, what: str) -> Rows[ObjectInfo]:
    plan = plan_listing(tree.ranges, (), prefix_interval(key_prefix(prefix)))
    return listing_of_plan(context, plan, what)


def listing_of_plan(context: Context, plan: Plan, what: str) -> Rows[ObjectInfo]:
    task = partial(list_body, context.workspace)
    return Rows(plan, OBJECTS, context.job("ls", what, LAYERED), task)


def have_equal_records(context: Context, one: MetaRangeId, other: MetaRangeId, what: str) -> bool:
    """Return whether two trees have equal records, possibly in different ranges."""
    if one == other:
        return True
    left, right = context.trees.get(one), context.trees.get(other)
    if record_count(left.ranges) != record_count(right.ranges):
        return False
    plan = plan_diff(left.ranges, right.ranges)
    job, body = context.job("diff", what, TWO_WAY), partial(diff_body, context.workspace)
    parts = (Rows(Plan(pieces), DIFFS, job, body) for pieces in (plan.pieces[:1], plan.pieces[1:]))
    return not any(batch.num_rows for part in parts for batch in part.batches())


def object_url(context: Context, ref: str, path: str, lifetime: timedelta) -> str:
    info = kept_object(context, ref, path)
    try:
        return content_url(info, ref, lifetime)
    except MissingFileError as error:
        raise purged_error(context, info, error) from error


def read_object(context: Context, ref: str, path: str) -> bytes:
    """Return the bytes of one object. Also raises PurgedError and ExpiredError."""
    info = kept_object(context, ref, path)
    try:
        return read_body(info, ref)
    except MissingFileError as error:
        kept_object(context, ref, path)  # It may have expired since.
        raise purged_error(context, info, error) from error
