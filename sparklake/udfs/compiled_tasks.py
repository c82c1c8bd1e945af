"""Tasks of commits, merges and diffs as single kernel calls.

Files of a local store are read and written by the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparklake.errors import SparklakeError
from sparklake.graveler import kernels
from sparklake.graveler.algebra.changes import (
    BlockChanges,
    ChangeCounts,
    Conflict,
    DifferingKeys,
    SideRows,
)
from sparklake.graveler.algebra.compare import two_way
from sparklake.graveler.algebra.three_way_merge import Decide, decisions
from sparklake.graveler.blocks.block import EMPTY, block_of_encoded, block_of_records
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.buffers import Positions
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.planning.change_summary import MOST_KEYS, ChangedKeys
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.graveler.planning.plan import OpenPiece, SideStream
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo, overlapping
from sparklake.graveler.sstable.range_files import WrittenRange, check_file_size, tree_file_key
from sparklake.graveler.sstable.writer import FIXED_PROPERTIES, make_table
from sparklake.rows.objects import batch_of_columns
from sparklake.rows.results import PieceResult
from sparklake.stores.objects.local.files import start_writeback
from sparklake.stores.objects.temporary import local_paths, new_temporary
from sparklake.udfs.observed_changes import ObservedChanges
from sparklake.udfs.range_sink import RangeSink

if TYPE_CHECKING:
    import pyarrow as pa


class Applied(NamedTuple):
    pieces: list[PieceResult]
    counts: ChangeCounts
    changed: ChangedKeys


class Merged(NamedTuple):
    pieces: list[PieceResult]
    changed: ChangedKeys


def apply_task(sink: RangeSink, task: Task, path_filter: PathFilter) -> Applied:
    base, *layers = _sides(sink.store, task.whole)
    with _new_files(sink, task, path_filter) as files:
        new_ranges, keys, counts = kernels.apply_task(base, layers, *files.settings)
        added, removed, changed = counts
        return Applied(
            files.results(new_ranges), ChangeCounts(added, removed, changed), _changed_keys(keys)
        )


def merge_task(
    sink: RangeSink,
    task: Task,
    path_filter: PathFilter,
    decide: Decide,
    observed: ObservedChanges | None,
) -> Merged:
    sides = _sides(sink.store, task.whole)
    with _new_files(sink, task, path_filter) as files:
        new_ranges, keys, (differing, flags), conflicts = kernels.merge_task(
            sides, *files.settings, decided=None
        )
        if observed is not None and len(differing):
            masks = [(flags & flag).astype(bool) for flag in kernels.SIDE_FLAGS]
            observed.observe_keys(DifferingKeys(differing, *masks))
        if not conflicts:
            return Merged(files.results(new_ranges), _changed_keys(keys))
        # Those before the first conflict.
        files.remove()
    decided = _decided(decide, [Conflict.of(key, *values) for key, values in conflicts])
    with _new_files(sink, task, path_filter) as files:
        new_ranges, keys, _, _ = kernels.merge_task(sides, *files.settings, decided=decided)
        return Merged(files.results(new_ranges), _changed_keys(keys))


def diff_task(store: ObjectStore, task: Task) -> list[BlockChanges]:
    records, rows = kernels.diff_task(_sides(store, task.whole), _scope(task, ALL))
    if not len(rows[0]):
        return []
    before, after = map(_side_rows, records, rows)
    return [two_way(before, after)]


def list_task(store: ObjectStore, task: Task, storage_namespace: str) -> list[pa.RecordBatch]:
    whole = task.whole
    base, *layers = _sides(store, whole)
    expected = whole.sides[0]
    columns = kernels.list_task(
        base, layers, _scope(task, ALL), storage_namespace, (expected.records, expected.bytes)
    )
    return [batch_of_columns(columns, storage_namespace)]


def _side_rows(entries: pa.BinaryArray, at: Positions) -> SideRows:
    block = block_of_encoded(EncodedRecords(entries)) if len(entries) else EMPTY
    return SideRows(block, at, block)


def _scope(task: Task, path_filter: PathFilter) -> tuple[list[Any], list[Any]]:
    pieces = [each.piece.interval for each in task.pieces]
    selected = path_filter.parts(Interval(pieces[0].start, pieces[-1].stop))
    return [(e.start, e.stop) for e in pieces], [(e.start, e.stop) for e in selected]


def _changed_keys(keys: list[bytes] | None) -> ChangedKeys:
    return ChangedKeys(None if keys is None else set(keys))


# --- conflicts ------------------------------------------------------------------------------------

_KEEP, _REMOVE, _REPLACE = range(3)


def _decided(decide: Decide, conflicts: Sequence[Conflict]) -> tuple[Any, Any]:
    """Return the action for each conflict, and replacement entries."""
    kinds, records = bytearray(), []
    for conflict, stored in zip(conflicts, decisions(decide, conflicts), strict=True):
        if stored == conflict.dest:
            kinds.append(_KEEP)
        elif stored is None:
            kinds.append(_REMOVE)
        else:
            kinds.append(_REPLACE)
            records.append((conflict.key, stored))
    return np.frombuffer(kinds, np.uint8), block_of_records(records).encoded.entries


# --- files ----------------------------------------------------------------------------------------


def decided_once(decide: Decide) -> Decide:
    """Return a function that has each conflict decided once, however often a task runs."""
    decided: dict[bytes, bytes | None] = {}

    def decide_new(conflicts: Sequence[Conflict]) -> list[bytes | None]:
        new = [each for each in conflicts if each.key not in decided]
        if new:
            decided.update(zip((each.key for each in new), decide(new), strict=True))
        return [decided[each.key] for each in conflicts]

    return decide_new


def _sides(store: ObjectStore, whole: OpenPiece) -> list[list[kernels.RangeFile]]:
    return [_files(store, side, whole.interval) for side in whole.sides]


def _files(store: ObjectStore, side: SideStream, hull: Interval) -> list[kernels.RangeFile]:
    """Return the files of a side, or their paths on this machine."""
    if side.rows:
        return [(make_table(block_of_records(side.rows)).file, None, None)]
    ranges = overlapping(side.ranges, hull)
    keys = [tree_file_key(each.id) for each in ranges]
    digests = [None if store.traits.verifies else bytes.fromhex(each.id) for each in ranges]
    ends = [(each.min_key, each.max_key) for each in ranges]
    paths = local_paths(store, keys)
    for info, path in zip(ranges, paths or (), strict=False):
        # A kernel reads whole files, and reports the missing ones.
        with suppress(OSError):
            check_file_size(info, Path(path).stat().st_size)
    contents: Iterable[bytes | str] = paths or _bodies(store, ranges, keys)
    return list(zip(contents, digests, ends, strict=True))


def _bodies(
    store: ObjectStore, ranges: Sequence[RangeInfo], keys: Sequence[str]
) -> Iterator[bytes]:
    for info, content in zip(ranges, store.get_many(keys), strict=True):
        check_file_size(info, len(content))
        yield content[:]


@dataclass(frozen=True, slots=True)
class _NewFiles:
    """The new ranges of a task. `stem` starts their paths; None keeps them in memory."""

    sink: RangeSink
    task: Task
    path_filter: PathFilter
    stem: str | None

    @property
    def settings(self) -> tuple[Any, ...]:
        """The last arguments of a kernel."""
        properties = list(FIXED_PROPERTIES.items())
        return (
            _scope(self.task, self.path_filter),
            (self.sink.range_records, self.sink.compress, properties, self.stem),
            MOST_KEYS,
        )

    def results(self, new_ranges: Sequence[Any]) -> list[PieceResult]:
        """Add the ranges to the sink, and return them by piece."""
        pieces: list[list[WrittenRange]] = [[] for _ in self.task.pieces]
        for number, row in enumerate(new_ranges):
            piece, digest, min_key, max_key, (records, size, tombstones), closed, file = row
            info = RangeInfo(
                id=RangeId(digest.hex()),
                min_key=min_key,
                max_key=max_key,
                count=records,
                size=size,
                tombstones=tombstones,
            )
            self.sink.add(info, self._new_file(number) if file is None else file)
            pieces[piece].append(WrittenRange(info, closed))
        return [
            PieceResult(each.position, tuple(ranges))
            for each, ranges in zip(self.task.pieces, pieces, strict=True)
        ]

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            for number in count() if self.stem else ():
                self._path(number).unlink()

    def _new_file(self, number: int) -> Path:
        path = self._path(number)
        with path.open("rb") as file:
            start_writeback(file)
        return path

    def _path(self, number: int) -> Path:
        return Path(f"{self.stem}-{number}")


@contextmanager
def _new_files(sink: RangeSink, task: Task, path_filter: PathFilter) -> Iterator[_NewFiles]:
    """Yield where new ranges are written. An error removes their files."""
    try:
        stem = new_temporary(sink.store)
    except SparklakeError:
        raise kernels.Declined from None
    files = _NewFiles(sink, task, path_filter, stem)
    try:
        yield files
    except BaseException:
        files.remove()
        raise
