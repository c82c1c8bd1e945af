"""The task body of a merge preview, which writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from sparklake.graveler.algebra import BlockChanges, Conflict, three_way_diff
from sparklake.graveler.entries import record_entry
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.records import identity_of
from sparklake.graveler.sums import bounded, column_sum
from sparklake.rows.merges import ConflictResult, KeptResult, PreviewResult
from sparklake.rows.results import encode_results
from sparklake.rows.settings import Workspace
from sparklake.strategies.content_types import without_same_content
from sparklake.strategies.judging import MAX_CONFLICTS_REPORTED, Judge
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.diffs import side_sizes
from sparklake.udfs.observed_changes import ObservedChanges
from sparklake.udfs.streams import open_sides, records_of
from sparklake.udfs.tasks import plan_tasks

if TYPE_CHECKING:
    import pyarrow as pa

Sizes: TypeAlias = NDArray[np.int64]


def preview_body(
    workspace: Workspace,
    resolution: Resolution,
    path_filter: PathFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Count the changes in dest by a merge of the matching keys.

    The sides are base, source, dest. A key with a strategy's decision counts as changed if the
    result differs from dest. The first conflicts are reported, decided ones included, and so are
    objects kept under other keys.
    """
    store = workspace.open_store()
    for task in plan_tasks(batches):
        tally = _Tally(Judge(resolution, workspace.storage_namespace, only_previews=True))
        base, source, dest = (
            records_of(each, path_filter) for each in open_sides(store, task.pieces)
        )
        seen = ObservedChanges(resolution)
        for changes in three_way_diff(base, source, dest, seen.observe):
            tally.add(without_same_content(changes))
        conflicts, kept = map(ConflictResult, tally.reported), map(KeptResult, tally.judge.kept)
        yield encode_results([tally.result(seen), *conflicts, *kept])


@dataclass(slots=True)
class _Tally:
    """Counts of the changes, block by block. Only conflicts are examined one by one."""

    judge: Judge
    counts: Counter[str] = field(default_factory=Counter)
    reported: list[Conflict] = field(default_factory=list)

    def add(self, changes: BlockChanges) -> None:
        clear = changes.where(~changes.conflicts)
        was, comes = clear.left.present, clear.right.present
        old, new = side_sizes(clear.left), side_sizes(clear.right)
        self._count("added", new[comes & ~was])
        self._count("changed", new[comes & was])
        self._count("removed", old[was & ~comes])
        contested = changes.where(changes.conflicts)
        self._contest([each for each in contested if isinstance(each, Conflict)])

    def result(self, seen: ObservedChanges) -> PreviewResult:
        """Return the counts, without the objects kept under other paths."""
        judge = self.judge
        said = PreviewResult(
            conflicts=judge.conflicts,
            unresolved=judge.left,
            logs=seen.logs.in_order(),
            added_files=seen.added,
        )
        return structs.replace(said, **self.counts)

    def _contest(self, conflicts: Sequence[Conflict]) -> None:
        self.reported += conflicts[: MAX_CONFLICTS_REPORTED - len(self.reported)]
        for conflict, decided in zip(conflicts, self.judge.decide(conflicts), strict=True):
            key, dest = conflict.key, conflict.dest
            shown = dest if decided is None else decided
            if shown is not None and identity_of(key, decided) != identity_of(key, dest):
                kind = "removed" if decided is None else "changed" if dest else "added"
                self._count(kind, _size(key, shown))

    def _count(self, kind: str, sizes: Sizes) -> None:
        self.counts[kind] += len(sizes)
        name = f"{kind}_bytes"
        self.counts[name] = bounded(self.counts[name] + column_sum(sizes))


def _size(key: bytes, stored: bytes) -> Sizes:
    return np.array([record_entry((key, stored)).size])
