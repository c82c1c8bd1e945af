"""Task bodies of an import: write ranges and the error table from sorted rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import EMPTY, Block, concatenated
from sparklake.graveler.blocks.edit import edited
from sparklake.graveler.buffers import Mask, Positions, mask_of
from sparklake.graveler.chunks import chunked
from sparklake.graveler.entries import entry_fields
from sparklake.graveler.keys import key_path
from sparklake.graveler.records import Record, record_data
from sparklake.rows.imports import (
    MAX_FIRST,
    Defect,
    ErrorsResult,
    ImportTaskSettings,
    ImportUpdate,
    Reason,
    UpdateResult,
)
from sparklake.rows.objects import object_batch, object_info
from sparklake.rows.records import record_block
from sparklake.rows.results import ChangesResult, PieceResult, encode_results
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.strategies.content_types import same_content
from sparklake.strategies.path_globs import is_excluded
from sparklake.udfs.imports.defects import MARK, defects_of, error_file, new_defect
from sparklake.udfs.range_sink import open_sink
from sparklake.udfs.streams import open_sides
from sparklake.udfs.tasks import Batches, BatchStream, plan_tasks
from sparklake.udfs.write_ranges import written_pieces

_RANGES_TOLD = 64
_ERRORS_A_FILE = 50_000


def ranges_body(
    workspace: Workspace, settings: ImportTaskSettings, batches: Batches
) -> BatchStream:
    """Write ranges from sorted rows of RECORD_SCHEMA, with defects first in each batch.

    After the first error, nothing else is written unless errors are skipped.
    """
    ledger = Ledger(workspace, settings)
    sink = open_sink(workspace)
    blocks = each_once(_records(batches, ledger), ledger.note_twice)
    ranges = sink.write(blocks if settings.skips else ledger.while_empty(blocks))
    if settings.skips or not ledger.counts:
        sink.put()
    else:
        sink.drop()
    for part in chunked(ranges, _RANGES_TOLD):
        yield encode_results([PieceResult(0, tuple(part))], sink.replaced)
    yield encode_results([ledger.result()])


def each_once(blocks: Iterable[Block], lose: Callable[[list[Record]], Record]) -> Iterator[Block]:
    """Yield one record per key, in key order. `lose` selects among duplicates."""
    tail = EMPTY
    for block in filter(len, blocks):
        together = block
        if len(tail):
            goes_on = tail.last_key == block.first_key
            count = len(tail) - goes_on
            if count:
                yield tail.slice(0, count)
            if goes_on:
                together = concatenated([tail.slice(count, len(tail)), block])
        tail = _without_others(together, lose)
    if len(tail):
        yield tail


def _without_others(block: Block, lose: Callable[[list[Record]], Record]) -> Block:
    keys = block.key_array()
    same = mask_of(pc.equal(keys[1:], keys[:-1]))
    if not same.any():
        return block
    starts = np.flatnonzero(~np.concatenate([[False], same]))
    stops = np.append(starts[1:], len(block))
    rows = starts.copy()
    for at in np.flatnonzero(stops - starts > 1).tolist():
        group = block.slice(int(starts[at]), int(stops[at])).records()
        rows[at] = starts[at] + group.index(lose(group))
    return block.take(rows)


def _records(batches: Batches, ledger: Ledger) -> Iterator[Block]:
    """Yield the records among rows, and note the defects."""
    for batch in batches:
        rows = batch
        if rows.num_rows and rows.column("key")[0].as_py().startswith(MARK):
            is_defect = pc.starts_with(rows.column("key").cast(pa.binary()), MARK)
            ledger.note(defects_of(rows.column("stored").filter(is_defect)))
            rows = rows.filter(pc.invert(is_defect))
        if rows.num_rows:
            yield record_block(rows)


@dataclass(slots=True)
class Ledger:
    """The errors of a task: counts, the first, and those for the next file."""

    workspace: Workspace
    settings: ImportTaskSettings
    counts: Counter[Reason] = field(default_factory=Counter)
    _first: list[Defect] = field(default_factory=list)
    _pending: list[Defect] = field(default_factory=list)
    _files: int = 0

    def note(self, defects: list[Defect]) -> None:
        """Count defects, and write a file when enough of them are pending."""
        self.counts.update(each.reason for each in defects)
        self._first += defects[: max(0, self.settings.reported - len(self._first))]
        if self.settings.errors_to is not None:
            self._pending += defects
            while len(self._pending) >= _ERRORS_A_FILE:
                self._write()

    def note_twice(self, group: list[Record]) -> Record:
        """Return a key's latest record, or the one with the smallest address; note the others."""
        group = sorted(group, key=_precedence)
        path = key_path(group[0][0])
        address = object_info(group[0], self.workspace.storage_namespace).address
        message = f"{address} has the same path, and is newer or has the smaller address"
        infos = (object_info(each, self.workspace.storage_namespace) for each in group[1:])
        self.note(
            [
                new_defect(path, each.address, each.size, Reason.DUPLICATE_PATH, message)
                for each in infos
            ]
        )
        return group[0]

    def while_empty(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks until the first error, then only collect errors."""
        for block in blocks:
            if not self.counts:
                yield block

    def result(self) -> ErrorsResult:
        """Write the pending errors, and return the result for the driver."""
        while self._pending:
            self._write()
        return ErrorsResult(dict(self.counts), tuple(self._first))

    def _write(self) -> None:
        assert self.settings.errors_to is not None
        rows, self._pending = self._pending[:_ERRORS_A_FILE], self._pending[_ERRORS_A_FILE:]
        name, body = error_file(rows, self._files)
        open_store(self.settings.errors_to).put_if_absent(name, body)
        self._files += 1


def _precedence(record: Record) -> tuple[int, str, bytes]:
    address, _, _, mtime, _, _, _ = entry_fields(record_data(*record))
    return -mtime, address, record[1]


def update_body(workspace: Workspace, update: ImportUpdate, batches: Batches) -> BatchStream:
    """Write existing records with imported ones over them. The sides are these two."""
    for task in plan_tasks(batches):
        updated = UpdatedRecords(update, workspace.storage_namespace)
        sink = open_sink(workspace)
        pairs = aligned(*open_sides(sink.store, task))
        results = written_pieces(sink, task, (updated.block(*pair) for pair in pairs))
        sink.put()
        report = UpdateResult(updated.others, tuple(updated.first), updated.retained)
        counts = ChangesResult(updated.counts)
        yield encode_results([*results, counts, report], sink.replaced)


@dataclass(slots=True)
class UpdatedRecords:
    """Existing records with imported ones over them, and the counts of their changes.

    `others` counts changed records that come from elsewhere, `first` are their first paths.
    `retained` counts existing records beside the imported ones.
    """

    update: ImportUpdate
    namespace: str
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    others: int = 0
    first: list[str] = field(default_factory=list)
    retained: int = 0

    def block(self, present: Block, imported: Block) -> Block:
        at, is_present = present.find(imported.keys)
        changed = np.flatnonzero(is_present)
        changed = changed[(present.ids[at[changed]] != imported.ids[changed]).any(axis=1)]
        if len(changed):
            same = same_content(present.take(at[changed]), imported.take(changed))
            changed = changed[~same]
        removed = self._removed(present, at[is_present])
        self.counts.added += int((~is_present).sum())
        self.counts.changed += len(changed)
        self.counts.removed += len(removed)
        if len(changed) and not self.update.replaces:
            self._note_others(present.take(at[changed]), imported.take(changed))
        dropped = np.zeros(len(present), bool)
        dropped[at[changed]] = dropped[removed] = True
        rows = np.union1d(changed, np.flatnonzero(~is_present))
        return edited(present, dropped, imported.take(rows))

    def _removed(self, present: Block, again: Positions) -> Positions:
        """Return the positions of existing records to remove; those imported again stay."""
        rows = np.setdiff1d(np.arange(len(present)), again, assume_unique=True)
        if not len(rows):
            return rows
        objects = object_batch(present.take(rows), self.namespace)
        paths = pc.utf8_slice_codeunits(objects.column("path"), len(self.update.folder))
        stays = np.zeros(len(rows), bool)
        if self.update.exclude:
            excluded = (is_excluded(self.update.exclude, each) for each in paths.to_pylist())
            stays = np.fromiter(excluded, bool, len(rows))
        leaves = ~stays
        if not self.update.replaces:
            leaves &= self._brought(paths, objects.column("address"))
        self.retained += int((~leaves & ~stays).sum())
        return rows[leaves]

    def _brought(self, paths: pa.StringArray, addresses: pa.StringArray) -> Mask:
        if self.update.place is None:
            return np.zeros(len(paths), bool)
        sources = pc.binary_join_element_wise(self.update.place, paths, "/")
        return mask_of(pc.equal(addresses, sources))

    def _note_others(self, before: Block, after: Block) -> None:
        old, new = object_batch(before, self.namespace), object_batch(after, self.namespace)
        differ = pc.not_equal(old.column("address"), new.column("address"))
        self.others += int(mask_of(differ).sum())
        first = old.column("path").filter(differ).to_pylist()
        self.first += first[: MAX_FIRST - len(self.first)]
