"""Caches of a repository's trees, until a tree sweep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

from sparklake.graveler.ids import MetaRangeId
from sparklake.rows.settings import Workspace

# Lazy imports: numpy and Arrow take 0.25 s, which a list of branches does not need.
if TYPE_CHECKING:
    from sparklake.graveler.planning.change_summary import ChangeSummary, KnownKeys
    from sparklake.graveler.ports import ObjectStore, RepositoryRefs
    from sparklake.graveler.ranges import MetaRange
    from sparklake.verbs.base.lookup import OpenRanges

_TREES_KEPT = 32


@dataclass(frozen=True)
class OpenTrees:
    """An open store with its cached trees, until the next tree sweep."""

    workspace: Workspace
    store: ObjectStore
    trees: Trees

    @staticmethod
    def of(workspace: Workspace) -> OpenTrees:
        store = workspace.open_store()
        return OpenTrees(workspace, store, Trees(store))

    @cached_property
    def open_ranges(self) -> OpenRanges:
        from sparklake.verbs.base.lookup import OpenRanges

        return OpenRanges(self.store)


class TreeCaches:
    """The caches of a repository's trees, replaced after each tree sweep.

    A tree file that was deleted and rewritten may have other addresses. Only commits published
    after the sweep reference the new file, and reading such a commit reveals the sweep.
    """

    def __init__(self, workspace: Workspace, refs: RepositoryRefs) -> None:
        self._refs = refs
        self._lock = Lock()
        self._open = OpenTrees.of(workspace)

    def current(self) -> OpenTrees:
        """Return the open trees after the latest observed sweep."""
        with self._lock:
            sweeps = self._refs.tree_sweeps
            if sweeps > self._open.workspace.tree_sweeps:
                self._open = OpenTrees.of(replace(self._open.workspace, tree_sweeps=sweeps))
            return self._open


class Trees:
    """A cache of immutable metaranges."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: LRUCache[MetaRangeId, MetaRange] = LRUCache(_TREES_KEPT)
        self._known: LRUCache[tuple[MetaRangeId, MetaRangeId], KnownKeys] = LRUCache(_TREES_KEPT)

    def get(self, meta_range_id: MetaRangeId) -> MetaRange:
        with self._lock:
            tree = self._kept.get(meta_range_id)
        if tree is None:
            from sparklake.graveler.sstable.range_files import read_meta_range

            tree = self.keep(read_meta_range(self._store, meta_range_id))
        return tree

    def keep(self, tree: MetaRange) -> MetaRange:
        with self._lock:
            self._kept[tree.id] = tree
        return tree

    def keep_known(self, before: MetaRangeId, after: MetaRangeId, keys: KnownKeys) -> None:
        with self._lock:
            self._known[before, after] = keys

    def change_summary(self, before: MetaRangeId, after: MetaRangeId) -> ChangeSummary | None:
        """Return the possible changes between two trees, or None unless both are cached."""
        with self._lock:
            one, other = self._kept.get(before), self._kept.get(after)
            keys = self._known.get((before, after))
        if one is None or other is None:
            return None
        from sparklake.graveler.planning.change_summary import summary_between

        return summary_between(one.ranges, other.ranges, keys)
