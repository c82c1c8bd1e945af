"""Task bodies of an export: survey, removals, copies and manifest."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

from sparklake.errors import InvalidKeyError
from sparklake.graveler.algebra import BlockChanges, ChangeType, diff
from sparklake.graveler.keys import exported_name
from sparklake.graveler.sums import bounded, bounded_sum
from sparklake.interrupts import Threads
from sparklake.rows.objects import object_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_destination, open_object
from sparklake.stores.objects.destinations import Destination, ExpectedObject
from sparklake.udfs.streams import open_sides
from sparklake.udfs.tasks import plan_tasks, report_batch

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("commit", pa.string(), nullable=False),
    ]
)
"""`type` is added, changed or removed. `address` is the full URI of the object in the lake."""


class ManifestFormat(str, Enum):
    """The file format of a manifest, which is also the suffix of its files."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


def encode_manifest(table: pa.Table, form: ManifestFormat) -> bytes:
    """Return rows of MANIFEST_SCHEMA as a file."""
    if form is ManifestFormat.JSONL:
        return b"".join(msgspec.json.encode(row) + b"\n" for row in table.to_pylist())
    file = io.BytesIO()
    if form is ManifestFormat.CSV:
        csv.write_csv(table, file)
    else:
        parquet.write_table(table, file)
    return file.getvalue()


COPY_THREADS = 8
"""The number of objects that a task copies at once. Each uses 16 to 32 MiB of memory at most."""

EXPORT_MARKER_KEY = "_sparklake_export.json"
"""The file that describes an export."""
MANIFEST_FOLDER = "_manifest/"

MOST_UNFIT = 100
"""The number of unfit objects that a task reports by name."""


class ExportPass(str, Enum):
    """A pass over the changes of an export."""

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
    """The counts of one task, planned or done. `copied_bytes` covers added and changed objects.

    `copied_bytes` is capped at 2^63 - 1.
    """

    position: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    copied_bytes: int = 0
    unfit_count: int = 0
    unfit: list[UnfitObject] = field(default_factory=list)

    def note_unfit(self, path: str, reason: str) -> None:
        """Record an object that the destination cannot store."""
        self.unfit_count += 1
        if len(self.unfit) < MOST_UNFIT:
            self.unfit.append(UnfitObject(path, reason))

    def plus(self, other: ExportReport) -> None:
        """Add the counts of another task."""
        for name in ("added", "changed", "removed", "copied_bytes", "unfit_count"):
            setattr(self, name, bounded(getattr(self, name) + getattr(other, name)))
        self.unfit = (self.unfit + other.unfit)[:MOST_UNFIT]


@dataclass(frozen=True, slots=True)
class ExportTaskSettings:
    """The settings that all tasks of an export share.

    The names of manifest files begin with `manifest`. With `reserves`, objects may not use the
    names of the export's own files. Without `removals`, removed objects stay at the destination.
    Without `writes`, nothing is copied.
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


def export_body(
    export: ExportTaskSettings, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield one report per task, as REPORT_SCHEMA.

    The left side is the state of the destination, the right side the wanted state.
    """
    store, destination = export.workspace.open_store(), open_destination(export.to)
    work = _STEPS[export.step]
    with Threads(COPY_THREADS, "sparklake-export") as pool:
        for batch in batches:
            positions = batch.column("position").to_pylist()
            for position, task in zip(positions, plan_tasks([batch]), strict=True):
                left, right = open_sides(store, task.pieces)
                share = _Share(export, destination, pool, ExportReport(position))
                work(share, diff(left, right))
                destination.settle()
                yield report_batch(share.report)


@dataclass(frozen=True, slots=True)
class _Share:
    """One task in progress."""

    export: ExportTaskSettings
    destination: Destination
    pool: Executor
    report: ExportReport

    def rows(self, changes: BlockChanges) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the objects to write and the objects to remove, as MANIFEST_SCHEMA."""
        namespace = self.export.workspace.storage_namespace
        if not self.export.writes:
            changes = changes.where(~changes.right.present)
        if not self.export.removals:
            changes = changes.where(changes.right.present)
        there = changes.right.present
        was_there = changes.left.present[there].tolist()
        kinds = [(ChangeType.CHANGED if each else ChangeType.ADDED).value for each in was_there]
        written = object_batch(changes.right.records(), namespace)
        gone = object_batch(changes.left.where(~there).records(), namespace)
        removed = [ChangeType.REMOVED.value] * gone.num_rows
        return self._manifest(kinds, written), self._manifest(removed, gone)

    def unsupported_reason(self, path: str) -> str:
        """Return the reason why a path cannot be exported, or "" if it can."""
        own = path == EXPORT_MARKER_KEY or path.startswith(MANIFEST_FOLDER)
        if own and self.export.reserves:
            return "has a name that is reserved for the export's own files"
        return self.destination.unsupported_reason(self.name(path))

    def name(self, path: str) -> str:
        """Return the name of an object at the destination."""
        return exported_name(path, has_folders=self.destination.has_folders)

    def _manifest(self, kinds: Sequence[str], objects: pa.RecordBatch) -> pa.RecordBatch:
        commit = self.export.commit
        types = pa.array(kinds, pa.string())
        columns = [objects.column(name) for name in MANIFEST_SCHEMA.names[1:-2]]
        kind = objects.column("content_type")
        commits = pa.array([commit] * objects.num_rows, pa.string())
        return pa.record_batch([types, *columns, kind, commits], schema=MANIFEST_SCHEMA)

    def count(self, written: pa.RecordBatch, gone: pa.RecordBatch) -> None:
        """Add rows to the counts of the report."""
        kinds = written.column("type").to_pylist()
        added = kinds.count(ChangeType.ADDED.value)
        self.report.added += added
        self.report.changed += len(kinds) - added
        self.report.removed += gone.num_rows
        copied = bounded_sum(written.column("size").to_pylist())
        self.report.copied_bytes = bounded(self.report.copied_bytes + copied)


def _survey(share: _Share, parts: Iterable[BlockChanges]) -> None:
    names = _Names(share)
    for changes in parts:
        written, gone = share.rows(changes)
        share.count(written, gone)
        for path in written.column("path").to_pylist():
            names.check(path)


def _remove(share: _Share, parts: Iterable[BlockChanges]) -> None:
    for changes in parts:
        _, gone = share.rows(changes)
        # The destination never had an unfit path, and its name could mean another object there.
        paths = [
            each for each in gone.column("path").to_pylist() if not share.unsupported_reason(each)
        ]
        for _ in share.pool.map(share.destination.remove, map(share.name, paths)):
            share.report.removed += 1


def _copy(share: _Share, parts: Iterable[BlockChanges]) -> None:
    listed, copied = [], partial(_copied, share)
    for changes in parts:
        written, gone = share.rows(changes)
        for failed in share.pool.map(copied, written.to_pylist()):
            if failed is not None:
                share.report.note_unfit(failed.path, failed.reason)
        share.count(written, gone)
        listed += [written, gone]
    _write_manifest(share, listed)


def _copied(share: _Share, row: Mapping[str, Any]) -> UnfitObject | None:
    """Copy the object of a row. Return it as unfit if the destination cannot store it."""
    wanted = ExpectedObject(**{each.name: row[each.name] for each in fields(ExpectedObject)})
    try:
        store, key = open_object(wanted.address)
        share.destination.copy(share.name(wanted.path), wanted, store, key)
    except InvalidKeyError as error:
        return UnfitObject(wanted.path, str(error))
    return None


def _list(share: _Share, parts: Iterable[BlockChanges]) -> None:
    listed = []
    for changes in parts:
        written, gone = share.rows(changes)
        share.count(written, gone)
        listed += [written, gone]
    _write_manifest(share, listed)


_STEPS = {
    ExportPass.SURVEY: _survey,
    ExportPass.REMOVE: _remove,
    ExportPass.COPY: _copy,
    ExportPass.LIST: _list,
}


def _write_manifest(share: _Share, rows: Sequence[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(rows, MANIFEST_SCHEMA).sort_by("path")
    if not table.num_rows:
        return
    form = share.export.form
    name = f"{share.export.manifest}-{share.report.position:05d}.{form.value}"
    share.destination.put(name, encode_manifest(table, form))


class _Names:
    """The check for unfit paths, for paths that a task passes in key order."""

    def __init__(self, share: _Share) -> None:
        self._share = share
        self._begun: list[str] = []

    def check(self, path: str) -> None:
        """Report a path if it is unfit."""
        reason = self._reason(path)
        if reason:
            self._share.report.note_unfit(path, reason)

    def _reason(self, path: str) -> str:
        # Only earlier paths that are prefixes of this one can be its parents.
        if self._share.name(path) != path:
            return self._share.unsupported_reason(path)  # No name is above or below an escaped one.
        while self._begun and not path.startswith(self._begun[-1]):
            self._begun.pop()
        above = (each for each in self._begun if path.startswith(f"{each}/"))
        file = next(above, None) if self._share.destination.has_folders else None
        self._begun.append(path)
        if file is not None:
            return f"is below {file!r}, which is an object"
        return self._share.unsupported_reason(path)
