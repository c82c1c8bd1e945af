"""A body that says what a merge would do, and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparklake.graveler.algebra import Changes, Conflict, Rows, take_side, three_way_diff
from sparklake.graveler.chosen import Choice
from sparklake.graveler.classification import Strategy
from sparklake.graveler.entries import record_entry
from sparklake.graveler.entry_columns import decode_entries
from sparklake.udfs.results import ConflictResult, PreviewResult, encode_results
from sparklake.udfs.streams import open_sides, records_of
from sparklake.udfs.tasks import Workspace, decode_tasks
from sparklake.udfs.writing import MAX_CONFLICTS_REPORTED

if TYPE_CHECKING:
    import pyarrow as pa

Sizes: TypeAlias = NDArray[np.int64]


def preview_body(
    workspace: Workspace,
    strategy: Strategy | None,
    choice: Choice,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Counts what a merge of the chosen keys would change in dest: sides are base, source, dest.

    What a strategy decides counts as changed as well. The first conflicts are reported, those that
    it decides, too.
    """
    store = workspace.open_store()
    for task in decode_tasks(batches):
        tally = _Tally(strategy)
        sides = (records_of(each, choice) for each in open_sides(store, task.pieces))
        for changes in three_way_diff(*sides):
            tally.add(changes)
        conflicts = map(ConflictResult, tally.reported)
        yield encode_results([PreviewResult(**tally.counts), *conflicts])


@dataclass(slots=True)
class _Tally:
    """Counts what would change, block by block; only a conflict is looked at by itself."""

    strategy: Strategy | None
    counts: Counter[str] = field(default_factory=Counter)
    reported: list[Conflict] = field(default_factory=list)

    def add(self, changes: Changes) -> None:
        clear = changes.where(~changes.conflicts)
        was, comes = clear.left.present, clear.right.present
        old, new = _sizes(clear.left), _sizes(clear.right)
        self._count("added", new[comes & ~was])
        self._count("changed", new[comes & was])
        self._count("removed", old[was & ~comes])
        for each in changes.where(changes.conflicts):
            assert isinstance(each, Conflict)
            self._contest(each)

    def _contest(self, conflict: Conflict) -> None:
        self.counts["conflicts"] += 1
        if len(self.reported) < MAX_CONFLICTS_REPORTED:
            self.reported.append(conflict)
        if self.strategy is None:
            self.counts["unresolved"] += 1
            return
        decided = take_side(self.strategy)(conflict)
        if decided == conflict.dest:
            return
        kind = "removed" if decided is None else "changed" if conflict.dest else "added"
        shown = decided or conflict.dest
        assert shown is not None
        self._count(kind, np.array([record_entry((conflict.key, shown)).size]))

    def _count(self, kind: str, sizes: Sizes) -> None:
        self.counts[kind] += len(sizes)
        self.counts[f"{kind}_bytes"] += int(sizes.sum())


def _sizes(rows: Rows) -> Sizes:
    """Returns the sizes of the objects of some rows, 0 where there is none."""
    sizes = np.zeros(len(rows.at), np.int64)
    sizes[rows.present] = decode_entries(rows.records()).size
    return sizes
