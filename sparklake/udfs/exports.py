"""Task bodies of an export: survey, removals, copies and manifest."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import csv

from sparklake.errors import InvalidKeyError
from sparklake.graveler.algebra.changes import BlockChanges, ChangeType
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.keys import exported_name
from sparklake.graveler.parquet_files import encode_parquet
from sparklake.graveler.sums import bounded, bounded_sum
from sparklake.interrupts import Threads
from sparklake.rows.objects import object_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_destination, open_object
from sparklake.stores.objects.destinations import Destination, ExpectedObject
from sparklake.udfs.streams import open_sides
from sparklake.udfs.tasks import Batches, BatchStream, plan_tasks, report_batch

MANIFEST_SCHEMA = required_schema(
    type=pa.string(),
    path=pa.string(),
    size=pa.int64(),
    checksum=pa.string(),
    mtime=pa.timestamp("us", tz="UTC"),
    address=pa.string(),
    content_type=pa.string(),
    commit=pa.string(),
)
"""`type` is added, changed or removed. `address` is the full URI of the object in the lake."""


class ManifestFormat(str, Enum):
    """The format of a manifest, and its file suffix."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


def encode_manifest(table: pa.Table, form: ManifestFormat) -> bytes:
    if form is ManifestFormat.JSONL:
        return b"".join(msgspec.json.encode(row) + b"\n" for row in table.to_pylist())
    if form is ManifestFormat.PARQUET:
        return encode_parquet(table)
    file = io.BytesIO()
    csv.write_csv(table, file)
    return file.getvalue()


COPY_THREADS = 8
"""Concurrent copies of a task. Each uses at most 32 MiB of memory."""

EXPORT_MARKER_KEY = "_sparklake_export.json"
MANIFEST_FOLDER = "_manifest/"

MAX_UNFIT = 100
"""The maximum number of unsupported objects that a task reports by name."""


class ExportPass(str, Enum):
    SURVEY = "survey"
    REMOVE = "remove"
    COPY = "copy"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class UnfitObject:
    """An object that the destination cannot store."""

    path: str
    reason: str


@dataclass(slots=True)
class ExportReport:
    """The counts of one task. `copied_bytes` is at most 2^63 - 1."""

    position: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    copied_bytes: int = 0
    unfit_count: int = 0
    unfit: list[UnfitObject] = field(default_factory=list)

    def note_unfit(self, path: str, reason: str) -> None:
        self.unfit_count += 1
        if len(self.unfit) < MAX_UNFIT:
            self.unfit.append(UnfitObject(path, reason))

    def plus(self, other: ExportReport) -> None:
        for name in ("added", "changed", "removed", "copied_bytes", "unfit_count"):
            setattr(self, name, bounded(getattr(self, name) + getattr(other, name)))
        self.unfit = (self.unfit + other.unfit)[:MAX_UNFIT]


@dataclass(frozen=True, slots=True)
class ExportTaskSettings:
    """The settings shared by the tasks of an export.

    `manifest` is the prefix of manifest files. With `reserves`, objects may not use the names of
    the export's own files. Without `removals`, removed objects stay at the destination. Without
    `writes`, nothing is copied.
    """

    workspace: Workspace
    to: str
    step: ExportPass
    commit: str
    manifest: str
    form: ManifestFormat
    reserves: bool
    removals: bool
    writes: bool


def export_body(export: ExportTaskSettings, batches: Batches) -> BatchStream:
    """Yield an ExportReport per task. The sides are the destination and its new state."""
    store, destination = export.workspace.open_store(), open_destination(export.to)
    work = _STEPS[export.step]
    with Threads(COPY_THREADS, "sparklake-export") as pool:
        for batch in batches:
            positions = batch.column("position").to_pylist()
            for position, task in zip(positions, plan_tasks([batch]), strict=True):
                left, right = open_sides(store, task)
                share = _Share(export, destination, pool, ExportReport(position))
                work(share, diff(left, right))
                destination.settle()
                yield report_batch(share.report)


@dataclass(frozen=True, slots=True)
class _Share:
    export: ExportTaskSettings
    destination: Destination
    pool: Executor
    report: ExportReport

    def rows(self, changes: BlockChanges) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the objects to write and those to remove, as MANIFEST_SCHEMA."""
        namespace = self.export.workspace.storage_namespace
        if not self.export.writes:
            changes = changes.where(~changes.right.present)
        if not self.export.removals:
            changes = changes.where(changes.right.present)
        present = changes.right.present
        existed = changes.left.present[present].tolist()
        kinds = [(ChangeType.CHANGED if each else ChangeType.ADDED).value for each in existed]
        current = object_batch(changes.right.records(), namespace)
        removed = object_batch(changes.left.where(~present).records(), namespace)
        removals = [ChangeType.REMOVED.value] * removed.num_rows
        return self._manifest(kinds, current), self._manifest(removals, removed)

    def unsupported_reason(self, path: str) -> str:
        """Return the reason why a path cannot be exported, or ""."""
        own = path == EXPORT_MARKER_KEY or path.startswith(MANIFEST_FOLDER)
        if own and self.export.reserves:
            return "has a name reserved for the export's own files"
        return self.destination.unsupported_reason(self.name(path))

    def name(self, path: str) -> str:
        return exported_name(path, has_folders=self.destination.has_folders)

    def _manifest(self, kinds: Sequence[str], objects: pa.RecordBatch) -> pa.RecordBatch:
        types = pa.array(kinds, pa.string())
        columns = [objects.column(name) for name in MANIFEST_SCHEMA.names[1:-1]]
        commits = pa.repeat(pa.scalar(self.export.commit), objects.num_rows)
        return pa.record_batch([types, *columns, commits], schema=MANIFEST_SCHEMA)

    def count(self, current: pa.RecordBatch, removed: pa.RecordBatch) -> None:
        kinds = current.column("type").to_pylist()
        added = kinds.count(ChangeType.ADDED.value)
        self.report.added += added
        self.report.changed += len(kinds) - added
        self.report.removed += removed.num_rows
        copied = bounded_sum(current.column("size").to_pylist())
        self.report.copied_bytes = bounded(self.report.copied_bytes + copied)


def _survey(share: _Share, parts: Iterable[BlockChanges]) -> None:
    parents = list[str]()
    for changes in parts:
        current, removed = share.rows(changes)
        share.count(current, removed)
        for path in current.column("path").to_pylist():
            if reason := _unfit_reason(share, path, parents):
                share.report.note_unfit(path, reason)


def _unfit_reason(share: _Share, path: str, parents: list[str]) -> str:
    """Return the reason why a path cannot be stored, or "".

    Paths arrive in key order. `parents` are the earlier paths that are prefixes of this one: only
    they can be its folders.
    """
    if share.name(path) != path:
        return share.unsupported_reason(path)  # No name is above or below an escaped one.
    while parents and not path.startswith(parents[-1]):
        parents.pop()
    above = (each for each in parents if path.startswith(f"{each}/"))
    file = next(above, None) if share.destination.has_folders else None
    parents.append(path)
    if file is not None:
        return f"is below {file!r}, which is an object"
    return share.unsupported_reason(path)


def _remove(share: _Share, parts: Iterable[BlockChanges]) -> None:
    for changes in parts:
        _, removed = share.rows(changes)
        # The destination never had an unfit path, and its name could mean another object there.
        paths = removed.column("path").to_pylist()
        names = [share.name(each) for each in paths if not share.unsupported_reason(each)]
        for _ in share.pool.map(share.destination.remove, names):
            share.report.removed += 1


def _write(share: _Share, parts: Iterable[BlockChanges]) -> None:
    """Write the manifest, and copy the objects in the pass for copies."""
    rows = list[pa.RecordBatch]()
    for changes in parts:
        current, removed = share.rows(changes)
        if share.export.step is ExportPass.COPY:
            for unfit in share.pool.map(partial(_copy, share), current.to_pylist()):
                if unfit is not None:
                    share.report.note_unfit(unfit.path, unfit.reason)
        share.count(current, removed)
        rows += [current, removed]
    table = pa.Table.from_batches(rows, MANIFEST_SCHEMA).sort_by("path")
    if table.num_rows:
        form = share.export.form
        name = f"{share.export.manifest}-{share.report.position:05d}.{form.value}"
        share.destination.put(name, encode_manifest(table, form))


def _copy(share: _Share, row: Mapping[str, Any]) -> UnfitObject | None:
    """Copy the object of a row. Return it if the destination cannot store it."""
    expected = ExpectedObject(**{each.name: row[each.name] for each in fields(ExpectedObject)})
    try:
        store, key = open_object(expected.address)
        share.destination.copy(share.name(expected.path), expected, store, key)
    except InvalidKeyError as error:
        return UnfitObject(expected.path, str(error))
    return None


_STEPS = {
    ExportPass.SURVEY: _survey,
    ExportPass.REMOVE: _remove,
    ExportPass.COPY: _write,
    ExportPass.LIST: _write,
}
