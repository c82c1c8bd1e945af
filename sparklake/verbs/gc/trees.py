"""Deletion of unreferenced tree files. docs/design/048 has the proof of safety."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sparklake.errors import MissingFileError
from sparklake.graveler.chunks import chunked
from sparklake.graveler.dumps.dump import (
    DumpManifest,
    dump_table_ids,
    dump_trees,
    read_dump_manifest,
)
from sparklake.graveler.ids import MetaRangeId, RangeId, earlier_generation
from sparklake.graveler.ports import RepositorySnapshot
from sparklake.graveler.ports.registers import HeldCheck
from sparklake.graveler.sstable.range_files import list_tree_files, read_meta_range, tree_file_key
from sparklake.interrupts import Threads
from sparklake.layout import candidates_key
from sparklake.namespace.lookups import OBJECT_THREADS
from sparklake.namespace.markers import check_sweep
from sparklake.namespace.swept_tree_files import encode_ids
from sparklake.verbs.base.context import Context

_DELETED_AT_ONCE = 4 * OBJECT_THREADS


def collects_trees(context: Context) -> bool:
    retention = context.refs.settings.get().retention
    return retention is not None and retention.tree_days is not None


@dataclass(slots=True)
class UnreferencedTreeFiles:
    """Sizes in bytes of unreferenced tree files, by id.

    Only the driver deletes tree files: a late task could delete a rewritten one.
    """

    context: Context
    sizes: dict[str, int]
    check_held: HeldCheck = lambda: None
    _ranges: dict[MetaRangeId, Sequence[str]] = field(default_factory=dict)
    _dumps: dict[DumpManifest, Collection[str]] = field(default_factory=dict)

    @staticmethod
    def listed(
        context: Context,
        moment: RepositorySnapshot,
        before: int,
        check_held: HeldCheck = lambda: None,
    ) -> UnreferencedTreeFiles:
        """List unreferenced tree files older than `before`, in unix nanoseconds."""
        tree_files = list_tree_files(context.store)
        sizes = {table_id: each.size for table_id, each in tree_files if each.mtime < before}
        files = UnreferencedTreeFiles(context, sizes, check_held)
        files.drop_referenced(moment)
        return files

    def announce(self, run_id: str) -> None:
        """Write the ids for concurrent verbs, durably."""
        self.context.store.replace(candidates_key(run_id), encode_ids(self.sizes))

    def drop_referenced(self, moment: RepositorySnapshot) -> None:
        """Drop the tree files referenced at a moment, or by the latest refs dump."""
        for each in self._referenced(moment):
            self.sizes.pop(each, None)
            # A dead range stays while a later generation is in use: writers find one by the other.
            earlier = each and earlier_generation(RangeId(each))
            while self.sizes.pop(earlier, None) is not None:
                earlier = earlier_generation(RangeId(earlier))

    def sweep(self, marker: str) -> None:
        """Delete the tree files, unless another process ends the sweep, or has its lock."""
        store = self.context.store
        with Threads(OBJECT_THREADS, "sparklake-sweep") as threads:
            for ids in chunked(sorted(self.sizes), _DELETED_AT_ONCE):
                check_sweep(store, marker)
                self.check_held()
                list(threads.map(store.delete, map(tree_file_key, ids)))

    def _referenced(self, moment: RepositorySnapshot) -> Iterator[str]:
        treeless = moment.treeless
        trees = {each.meta_range_id for each in moment.refs.commits if each.id not in treeless}
        layers = (layer for each in moment.refs.branches for layer in each.layers)
        trees |= {each.meta_range_id for each in layers if each.meta_range_id is not None}
        for tree in sorted(trees):
            yield tree
            yield from self._ranges_of(tree)
        yield from self._dumped()

    def _dumped(self) -> Collection[str]:
        """Return the tree files of the latest dump. A second call reads only its manifest."""
        try:
            manifest = read_dump_manifest(self.context.store)
        except MissingFileError:
            return ()
        if manifest not in self._dumps:
            files: set[str] = set()
            with suppress(MissingFileError):  # Nobody can restore an incomplete dump.
                for each in self._files_of(manifest):
                    files.add(each)
            self._dumps[manifest] = files  # After a failed read, all are read again.
        return self._dumps[manifest]

    def _files_of(self, manifest: DumpManifest) -> Iterator[str]:
        store = self.context.store
        yield from dump_table_ids(store, manifest)
        for tree in sorted(dump_trees(store, manifest)):
            yield tree
            with suppress(MissingFileError):
                yield from self._ranges_of(tree)

    def _ranges_of(self, tree: MetaRangeId) -> Sequence[str]:
        if tree not in self._ranges:
            ranges = read_meta_range(self.context.store, tree).ranges
            self._ranges[tree] = tuple(each.id for each in ranges)
        return self._ranges[tree]
