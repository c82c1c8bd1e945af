"""The union: source's snapshots since base, repeated on dest's metadata, or undone in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparklake.metadata.iceberg.documents import Document
from sparklake.metadata.iceberg.entries import Entry, FileKey
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.puffin import new_puffin
from sparklake.metadata.iceberg.union.continuation import Continuation, IcebergSignature, Step
from sparklake.metadata.iceberg.union.dropped import net_changes
from sparklake.metadata.iceberg.union.overwrites import check_overwrites
from sparklake.metadata.iceberg.union.settings import settled
from sparklake.metadata.iceberg.union.snapshots import (
    MERGED,
    ORIGIN,
    UNDONE,
    IcebergApart,
    IcebergCommit,
    Table,
    check_equality,
    check_identity,
)
from sparklake.metadata.iceberg.union.states import FileStates, is_plain_delete, vectors_of
from sparklake.metadata.union.commits import still_to_undo, undo_origin
from sparklake.metadata.union.conflicts import OverlappingRowsError, UnmergeableTableError
from sparklake.metadata.vectors.bitmaps import Positions, positions
from sparklake.metadata.vectors.unite import VectorOverlap, unite_vectors

_CARRIED = ("operation", "replace-partitions")


@dataclass(frozen=True, slots=True)
class UnitedTable:
    """New files for dest by name in the table, and the paths of other files in use.

    Unions with equal `steps` on one dest are equal: settings, and repeated or undone commits.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    needed: Sequence[str] = ()
    steps: tuple[object, ...] = ()


def united(
    base: Table, source: Table, dest: Table, apart: IcebergApart, signature: IcebergSignature
) -> UnitedTable:
    """Return the new version of dest's metadata, or nothing if dest has all changes.

    Raises:
        UnmergeableTableError: The changes of both sides do not fit.
    """
    for side in (source, dest):
        check_equality(side)
    check_identity([base, source, dest], [apart.base, apart.source, apart.dest])
    undone = apart.undone()
    if undone:
        return _undoing(undone, (base, source, dest), apart, signature)
    theirs, ours = apart.repeated(), apart.ours
    document = settled(base.document, source.document, dest.document, theirs, ours)
    _check_format(document, theirs, ours)
    if not theirs and document == dest.document:
        return UnitedTable()
    check_overwrites(source, theirs, dest, ours)
    states = FileStates.of(dest, apart.dest, apart.shared)
    replay = _Replay(source, dest, states, Continuation(dest, document, signature))
    numbers = {each.snapshot["snapshot-id"] for each in theirs}
    in_dest = {each.origin for each in apart.dest}
    for each in apart.source:
        if each.snapshot["snapshot-id"] in numbers:
            replay.repeat(each)
        elif each.origin not in in_dest:
            states.lack(source, each)
        states.passed.add(each.origin)
    replay.result.finished()
    steps = document, [each.origin for each in theirs]
    return UnitedTable(replay.result.files, replay.needed, steps)


def _check_format(
    document: Document, theirs: Iterable[IcebergCommit], ours: Iterable[IcebergCommit]
) -> None:
    """Reject new position deletes beside vectors for the same files.

    A vector replaces all position deletes of its file.
    """
    if document["format-version"] < 3:
        return
    added = [[entry for each in side for entry in each.added.values()] for side in (theirs, ours)]
    plain = list(filter(is_plain_delete, added[0]))
    if any(each.file.is_vector for each in added[0]):
        plain += filter(is_plain_delete, added[1])
    if plain:
        raise UnmergeableTableError(
            "it has position deletes of an earlier format version beside deletion vectors",
            [plain[0].file.path],
        )


@dataclass
class _VectorChanges:
    """The files to remove, the vectors to write instead of others, and those that they replace."""

    removed: dict[FileKey, Entry]
    merged: dict[str, tuple[Entry, Positions]] = field(default_factory=dict)
    replaced: set[FileKey] = field(default_factory=set)

    def replace(
        self,
        path: str,
        before: Entry | None,
        after: Entry | None,
        current: Entry | None,
        rows: Positions,
    ) -> None:
        """Replace the current vector of a data file."""
        if before is not None:
            self.removed.pop(before.key, None)
        if current is not None:
            self.removed[current.key] = current
        if after is not None:
            self.replaced.add(after.key)
        template = after or current
        if len(rows) and template is not None:
            self.merged[path] = template, rows


@dataclass
class _Replay:
    source: Table
    dest: Table
    states: FileStates
    result: Continuation
    needed: list[str] = field(default_factory=list)
    _rows: dict[FileKey, Positions] = field(default_factory=dict)

    def repeat(self, commit: IcebergCommit) -> None:
        replaced = self.states.check(self.source, commit)
        summary = {name: commit.summary[name] for name in _CARRIED if name in commit.summary}
        summary[ORIGIN] = commit.origin
        for name, recorded in ((UNDONE, commit.undone), (MERGED, commit.merged)):
            if recorded:
                summary[name] = ",".join(recorded)
        self.apply(commit.added, commit.removed, summary, commit.manifests, replaced)

    def apply(
        self,
        added: Mapping[FileKey, Entry],
        removed: Mapping[FileKey, Entry],
        summary: Mapping[str, str],
        unchanged: frozenset[str],
        replaced: Collection[FileKey] = (),
        restored: bool = False,
    ) -> None:
        """Append a snapshot. Of `replaced` deletes, dest has the rows in other files."""
        states = self.states
        states.check_rows(self.source, added, removed)
        for each in replaced:
            states.touch(self.source.deleted_rows(removed[each]))
        there = {key: each for key, each in removed.items() if key not in replaced}
        changes = self._changes(added, there, restored)
        vectors = self._new_vectors(changes.merged)
        plain = {key: each for key, each in added.items() if key not in changes.replaced}
        step = Step(summary, unchanged=unchanged, restored=restored, removed=changes.removed)
        step.added = [(self._manifest(each), each) for each in (*plain.values(), *vectors)]
        self.result.append(step, self.source.manifest_list)
        states.take(plain, changes.removed)
        states.take({each.key: each for each in vectors}, {})
        states.ours.update(added, removed)
        self.needed += [each.path for each in plain]

    def _changes(
        self, added: Mapping[FileKey, Entry], removed: Mapping[FileKey, Entry], restored: bool
    ) -> _VectorChanges:
        """Return the changes of vectors, united with those of dest."""
        states, changes = self.states, _VectorChanges(dict(removed))
        absent = {key.path for key in removed if key not in added}
        befores, afters = (vectors_of(each.values()) for each in (removed, added))
        overlaps: dict[str, list[int]] = {}
        for path in sorted(befores.keys() | afters.keys()):
            before, after = befores.get(path), afters.get(path)
            if FileKey(path) not in removed:
                states.check_deletes({path: positions()})
            current = states.vectors.get(path, before)
            if path in absent or _key(current) == _key(before):
                continue
            old, new, ours = (self._vector(each, path) for each in (before, after, current))
            union = unite_vectors(old, new, ours)
            if isinstance(union, VectorOverlap):
                overlaps[path] = union.rows.tolist()
                continue
            if not restored and len(np.setdiff1d(old, new)):
                raise UnmergeableTableError(
                    "source restored rows of files in which dest deleted rows", [path]
                )
            changes.replace(path, before, after, current, union.rows)
        if overlaps:
            raise OverlappingRowsError(overlaps)
        return changes

    def _manifest(self, entry: Entry) -> Any:
        for side in (self.source, self.dest, self.result):
            match = side.find_manifest(entry.manifest)
            if match is not None:
                return match
        raise UnmergeableTableError("a manifest was not read", [entry.manifest])

    def _vector(self, entry: Entry | None, path: str) -> Positions:
        if entry is None:
            return positions()
        if entry.key in self._rows:
            return self._rows[entry.key]
        for side in (self.source, self.dest):
            if side.find_manifest(entry.manifest) is not None:
                return side.deleted_rows(entry)[path]
        raise UnmergeableTableError("a manifest was not read", [entry.manifest])

    def _new_vectors(self, merged: Mapping[str, tuple[Entry, Positions]]) -> list[Entry]:
        if not merged:
            return []
        body, slices = new_puffin({path: rows for path, (_, rows) in merged.items()})
        name = f"deletes/{self.result.new_name('dv')}.puffin"
        uri = self.result.put(name, body)
        result = []
        for path, (template, rows) in merged.items():
            offset, length = slices[path]
            entry = template.at_vector(uri, offset, length, len(body), len(rows))
            self._rows[entry.key] = rows
            self.states.touch({path: rows})
            result.append(entry)
        return result


def _key(entry: Entry | None) -> FileKey | None:
    return None if entry is None else entry.key


def _undoing(
    undone: Sequence[IcebergCommit],
    sides: tuple[Table, Table, Table],
    apart: IcebergApart,
    signature: IcebergSignature,
) -> UnitedTable:
    """Return a snapshot that undoes commits of base, or nothing if dest already did."""
    base, source, dest = sides
    ours, since = apart.dest, apart.since
    targets = still_to_undo(undone, ours)
    alone = not since and len(targets) == len(undone)
    document = settled(base.document, source.document, dest.document, (), since)
    if document != dest.document and not alone:
        raise UnmergeableTableError(
            "the commits to undo changed the table's settings, and dest has later commits"
        )
    if not targets:
        return UnitedTable()
    added, removed = net_changes(targets)
    later = (entry for each in since for entry in each.added.values())
    restored_deletes = any(map(is_plain_delete, (*added.values(), *removed.values(), *later)))
    if document["format-version"] > 2 and restored_deletes:
        raise UnmergeableTableError(
            "it has position deletes of an earlier format version beside deletion vectors"
        )
    shared = {each.origin for each in ours} - {each.origin for each in since}
    states = FileStates.of(dest, ours, shared)
    absent = [
        key.path
        for key, each in added.items()
        if not states.is_live(key) and not each.file.is_vector
    ]
    if absent:
        raise UnmergeableTableError("files to remove were removed or rewritten since then", absent)
    restored = [each.path for each in removed if states.live.get(each)]
    if restored:
        raise UnmergeableTableError("files to restore are already restored", restored)
    every = (*added.values(), *removed.values())
    states.check_untouched(each for each in every if each.file.content is Content.DATA)
    for each in every:
        if each.file.content is Content.POSITION_DELETES:
            paths = base.deleted_rows(each).keys() - {key.path for key in (*added, *removed)}
            states.check_deletes({path: positions() for path in paths})
    ids = [each.origin for each in targets]
    adds, removes = bool(removed), bool(added)
    operation = "overwrite" if adds and removes else "append" if adds else "delete"
    summary = {"operation": operation, ORIGIN: undo_origin(ids), UNDONE: ",".join(ids)}
    replay = _Replay(base, dest, states, Continuation(dest, document, signature))
    unchanged = frozenset(source.manifest_list.entries if source.manifest_list else ())
    replay.apply(removed, added, summary, unchanged, restored=True)
    replay.result.finished()
    return UnitedTable(replay.result.files, replay.needed, (document, "undo", ids))
