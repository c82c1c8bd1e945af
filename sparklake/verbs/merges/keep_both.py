"""Objects kept under another key by the `keep-both` strategy, and their previews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sparklake.engine.execution import finish, run_plan
from sparklake.errors import InvalidKeyError, StrategyError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome, classify
from sparklake.graveler.chunks import chunked
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.records import Record, decode_record, encode_record, identity_of
from sparklake.rows.merges import KeptObject
from sparklake.rows.records import record_batch
from sparklake.strategies.both import kept_keys
from sparklake.strategies.judging import MAX_KEPT, Judge, too_many_kept
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.staging import INLINE_ROWS, write_meta_run

Find = Callable[[bytes], bytes | None]
"""A function from a key to its stored value."""


def with_records(
    context: Context, title: str, tree: MetaRange, records: Sequence[Record]
) -> MetaRange:
    """Apply records in key order, including tombstones, to a tree, and write the result."""
    if not records:
        return tree
    touched = [Interval(key, successor(key)) for key, _ in records]
    plan = plan_apply(tree.ranges, [_side(context, title, records)], touched)
    runner = context.runners.choose(plan.records, title)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    return finish(context.store, context.workspace, outcome.pieces)


def places(additions: Sequence[KeptObject], find: Find) -> list[Record]:
    """Return records of the kept objects, given in key order, each under a free key."""
    in_use: dict[bytes, bytes] = {}
    records = []
    for each in additions:
        content = decode_record(each.key, each.stored)
        for key in kept_keys(each.key, each.target):
            there = in_use.get(key) or identity_of(key, find(key))
            if there is None:
                in_use[key] = content.identity
                records.append(_record(each, key, content.identity, content.data))
            if there in (None, content.identity):
                break
    return sorted(records)


def _record(each: KeptObject, key: bytes, identity: bytes, data: bytes) -> Record:
    try:
        return encode_record(key, identity, data)
    except InvalidKeyError as error:
        raise StrategyError(
            f"there is no free key to keep both objects of {each.key.decode(errors='replace')!r}: "
            f"{error}. Resolve it with another rule"
        ) from error


def _side(context: Context, title: str, records: Sequence[Record]) -> SideStream:
    if len(records) <= INLINE_ROWS:
        return SideStream(rows=tuple(records))
    runner = context.runners.choose(len(records), title)
    batches = map(record_batch, chunked(records, INLINE_ROWS))
    return SideStream(tuple(write_meta_run(context, runner, iter, batches).ranges))


def kept_sizes(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, additions: Sequence[KeptObject]
) -> list[int]:
    """Return the sizes of the kept objects, given in key order."""
    if len(additions) > MAX_KEPT:
        raise too_many_kept()
    merged = MergedView(context, sides, resolution)
    return [record_entry(each).size for each in places(additions, merged.find)]


@dataclass(frozen=True, slots=True)
class MergedView:
    """The tree of a merge, computed per key, without objects kept under other keys."""

    context: Context
    sides: ThreeWayTrees
    resolution: Resolution

    def find(self, key: bytes) -> bytes | None:
        return self.find_many([key])[0]

    def find_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        path_filter = self.sides.path_filter
        lookup, trees = self.context.open_ranges.lookup_many, self.context.trees
        values = (lookup(trees.get(each).ranges, keys) for each in self.sides.trees)
        return [
            self._merged(key, base, source, dest)
            if source != base and (path_filter.is_everything or key in path_filter)
            else dest
            for key, base, source, dest in zip(keys, *values, strict=True)
        ]

    def _merged(
        self, key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None
    ) -> bytes | None:
        if dest is None and base is None:
            return source
        outcome = classify(*(identity_of(key, each) for each in (base, source, dest)))
        if outcome is not KeyOutcome.CONFLICT:
            return source if outcome is KeyOutcome.TAKE_SOURCE else dest
        conflict = Conflict.of(key, base, source, dest)
        namespace = self.context.info.storage_namespace
        return Judge(self.resolution, namespace, only_previews=True).decide([conflict])[0]
