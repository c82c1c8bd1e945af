"""Results of merge tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from sparklake.graveler.algebra.changes import Conflict
from sparklake.rows.results import TaskResult

MAX_FOLDERS = 1_000
"""The maximum number of folders with a sample. Others are omitted."""

Samples = dict[bytes, bytes]
"""The key of a file for each folder."""


@dataclass(slots=True)
class AddedFiles:
    """Samples of the files added by each side since base, by table folder."""

    source: Samples = field(default_factory=dict)
    dest: Samples = field(default_factory=dict)

    def join(self, other: AddedFiles) -> None:
        """Add the samples of another task."""
        for mine, theirs in ((self.source, other.source), (self.dest, other.dest)):
            for folder, key in theirs.items():
                if folder in mine or len(mine) < MAX_FOLDERS:
                    mine[folder] = min(key, mine.get(folder, key))


def add_tables(tables: set[bytes], new: Iterable[bytes]) -> None:
    """Add folders of tables. Too many become the root, which contains all."""
    tables.update(new)
    if len(tables) > MAX_FOLDERS:
        tables.clear()
        tables.add(b"")


class ConflictCountResult(TaskResult, frozen=True, tag="conflict-count"):
    """The counts of a task's conflicts, total and unresolved.

    `logs` are the folders of Delta logs with a record that differs from dest's. `added_files`
    samples the Parquet files added by the sides, and `tables` are those with data files that one
    side alone added or changed.
    """

    conflicts: int
    unresolved: int = 0
    logs: tuple[bytes, ...] = ()
    added_files: AddedFiles = msgspec.field(default_factory=AddedFiles)
    tables: tuple[bytes, ...] = ()


class ConflictResult(TaskResult, frozen=True, tag="conflict"):
    """One of a task's first conflicts."""

    conflict: Conflict


class DeferredResult(TaskResult, frozen=True, tag="deferred"):
    """A conflict that a merge of rows must resolve."""

    conflict: Conflict


class KeptObject(NamedTuple):
    """A side's object to keep under `target`. The record id in `stored` belongs to `key`."""

    key: bytes
    target: bytes
    stored: bytes


class KeptResult(TaskResult, frozen=True, tag="kept"):
    """An object to keep in addition to the merge result."""

    addition: KeptObject


class PreviewResult(TaskResult, frozen=True, tag="preview"):
    """The changes to dest by a merge, and its conflicts. Sizes are in bytes."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    added_bytes: int = 0
    changed_bytes: int = 0
    removed_bytes: int = 0
    conflicts: int = 0
    unresolved: int = 0
    logs: tuple[bytes, ...] = ()
    added_files: AddedFiles = msgspec.field(default_factory=AddedFiles)
    tables: tuple[bytes, ...] = ()
