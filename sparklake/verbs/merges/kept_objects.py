"""Previews of objects kept under another key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklake.graveler.algebra import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome, classify
from sparklake.graveler.entries import record_entry
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.records import identity_of
from sparklake.rows.merges import KeptObject
from sparklake.strategies.judging import MAX_KEPT, Judge, too_many_kept
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.three_way_trees import ThreeWayTrees
from sparklake.verbs.merges.keep_both import places


def kept_sizes(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, kept: Sequence[KeptObject]
) -> list[int]:
    """Return the sizes of the objects kept under other keys.

    `kept` is in key order. Raises StrategyError as the merge would.
    """
    if len(kept) > MAX_KEPT:
        raise too_many_kept()
    merged = MergedView(context, sides, resolution)
    return [record_entry(each).size for each in places(kept, merged.find)]


@dataclass(frozen=True, slots=True)
class MergedView:
    """The tree of a merge, computed per key, without objects kept under other keys."""

    context: Context
    sides: ThreeWayTrees
    resolution: Resolution

    def find(self, key: bytes) -> bytes | None:
        return self.find_many([key])[0]

    def find_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored values of ascending keys."""
        path_filter = self.sides.path_filter
        found = (self._found(tree, keys) for tree in self.sides.trees)
        return [
            self._merged(key, base, source, dest)
            if source != base and (path_filter.is_everything or key in path_filter)
            else dest
            for key, base, source, dest in zip(keys, *found, strict=True)
        ]

    def _merged(
        self, key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None
    ) -> bytes | None:
        """Return the merged value of a selected key changed by source."""
        if dest is None and base is None:
            return source
        outcome = classify(*(identity_of(key, each) for each in (base, source, dest)))
        if outcome is not KeyOutcome.CONFLICT:
            return source if outcome is KeyOutcome.TAKE_SOURCE else dest
        disputed = base is not None and is_disagreement(base)
        conflict = Conflict(key, None if disputed else base, source, dest, disputed)
        namespace = self.context.info.storage_namespace
        return Judge(self.resolution, namespace, only_previews=True).decide([conflict])[0]

    def _found(self, tree: MetaRangeId, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.context.open_ranges.lookup_many(self.context.trees.get(tree).ranges, keys)
