"""The task body of a merge preview. It writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklake.graveler.algebra.changes import BlockChanges, Conflict
from sparklake.graveler.algebra.compare import three_way_diff
from sparklake.graveler.buffers import Positions
from sparklake.graveler.entries import record_entry
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.records import identity_of
from sparklake.graveler.sums import bounded, column_sum
from sparklake.rows.merges import ConflictResult, DeferredResult, KeptResult, PreviewResult
from sparklake.rows.results import encode_results
from sparklake.rows.settings import Workspace
from sparklake.strategies.content_types import without_same_content
from sparklake.strategies.judging import MAX_CONFLICTS_REPORTED, Judge
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.diffs import side_sizes
from sparklake.udfs.observed_changes import ObservedChanges
from sparklake.udfs.streams import open_tasks, records_of
from sparklake.udfs.tasks import Batches, BatchStream


def preview_body(
    workspace: Workspace, resolution: Resolution, path_filter: PathFilter, batches: Batches
) -> BatchStream:
    """Count the changes to dest by a merge of the matching keys.

    The sides are base, source, dest. A resolved conflict counts as a change if its result differs
    from dest. The first conflicts are reported, including resolved ones.
    """
    for sides in open_tasks(workspace, batches):
        tally = _Tally(Judge(resolution, workspace.storage_namespace, only_previews=True))
        base, source, dest = (records_of(each, path_filter) for each in sides)
        observed = ObservedChanges(resolution)
        for changes in three_way_diff(base, source, dest, observed.observe):
            tally.add(without_same_content(changes))
        conflicts = map(ConflictResult, tally.reported)
        retained = map(KeptResult, tally.judge.kept_objects)
        deferred = map(DeferredResult, tally.judge.deferred)
        yield encode_results([tally.result(observed), *conflicts, *retained, *deferred])


@dataclass(slots=True)
class _Tally:
    """Counts of the changes, by block. Only conflicts are examined one by one."""

    judge: Judge
    counts: Counter[str] = field(default_factory=Counter)
    reported: list[Conflict] = field(default_factory=list)

    def add(self, changes: BlockChanges) -> None:
        clear = changes.where(~changes.conflicts)
        in_dest, in_source = clear.left.present, clear.right.present
        old, new = side_sizes(clear.left), side_sizes(clear.right)
        self._count("added", new[in_source & ~in_dest])
        self._count("changed", new[in_source & in_dest])
        self._count("removed", old[in_dest & ~in_source])
        contested = changes.where(changes.conflicts)
        self._contest([each for each in contested if isinstance(each, Conflict)])

    def result(self, observed: ObservedChanges) -> PreviewResult:
        """Return the counts, without the objects kept under other paths."""
        return PreviewResult(
            conflicts=self.judge.conflicts,
            unresolved=self.judge.unresolved,
            logs=tuple(sorted(observed.logs)),
            added_files=observed.added,
            tables=tuple(observed.tables),
            **self.counts,
        )

    def _contest(self, conflicts: Sequence[Conflict]) -> None:
        self.reported += conflicts[: MAX_CONFLICTS_REPORTED - len(self.reported)]
        for conflict, decided in zip(conflicts, self.judge.decide(conflicts), strict=True):
            key, dest = conflict.key, conflict.dest
            value = dest if decided is None else decided
            if value is not None and identity_of(key, decided) != identity_of(key, dest):
                kind = "removed" if decided is None else "changed" if dest else "added"
                self._count(kind, np.array([record_entry((key, value)).size]))

    def _count(self, kind: str, sizes: Positions) -> None:
        self.counts[kind] += len(sizes)
        name = f"{kind}_bytes"
        self.counts[name] = bounded(self.counts[name] + column_sum(sizes))
