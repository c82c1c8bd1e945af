"""Files in which dest's deletion vector differs from that of source, and their changes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparklake.graveler.json_errors import BAD_JSON
from sparklake.metadata.delta.actions import Action, Fields, FileKey, fields_of
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.union.liveness import FileStates
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature, removal
from sparklake.metadata.delta.vectors import new_vectors
from sparklake.metadata.union.conflicts import OverlappingRowsError, UnmergeableTableError
from sparklake.metadata.vectors.bitmaps import Positions
from sparklake.metadata.vectors.unite import VectorOverlap, unite_vectors


@dataclass(frozen=True, slots=True)
class VectorChange:
    """A change of a file's vector, to apply to its live `add` in dest."""

    before: Fields
    after: Fields
    live: Fields
    data_change: bool


class _Result(NamedTuple):
    rows: Positions
    stats: str


@dataclass(slots=True)
class MarkedFiles:
    """The live files of dest with another vector than in source, by path.

    A changed file takes the place of the former one, and `files` collects the new files of
    vectors.
    """

    source: LogSide
    dest: LogSide
    signature: UnionSignature
    live: dict[str, Fields] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    _rows: dict[FileKey, Positions] = field(default_factory=dict)
    """The rows of new vectors, which no store has yet."""

    def find(self, versions: Container[int], states: FileStates) -> None:
        """Look up the files whose first removal by a repeated commit is of another vector."""
        paths: set[str] = set()
        known: set[str] = set()
        for commit in self.source.commits:
            if commit.version in versions:
                removed = (key for key in commit.removes if key.path not in known)
                paths.update(key.path for key in removed if not states.is_live(key))
                known.update(key.path for key in (*commit.removes, *commit.adds))
        if paths:
            self.look_up(paths)
            states.before.update(map(FileKey.of, self.live.values()))

    def look_up(self, paths: Set[str]) -> None:
        self.live.update((key.path, each) for key, each in self.dest.find_adds(paths).items())

    def in_dest(self, commit: DeltaCommit) -> DeltaCommit:
        """Return a commit of source with its removals and vectors applied to dest's files."""
        removed = {
            path: each for path, each in commit.by_path("remove").items() if path in self.live
        }
        if not removed:
            return commit
        added = {path: each for path, each in commit.by_path("add").items() if path in removed}
        changes = [
            VectorChange(removed[path], each, self.live[path], each.get("dataChange", True))
            for path, each in added.items()
        ]
        actions = [action for pair in self.changes(changes) for action in pair]
        actions += [
            self._whole_removal(path, each) for path, each in removed.items() if path not in added
        ]
        others = (
            action
            for action in commit.actions
            if not any(FileKey.of(each).path in removed for each in fields_of([action], *_OF_LIVE))
        )
        return DeltaCommit(commit.version, (*others, *actions))

    def _whole_removal(self, path: str, removed: Fields) -> Action:
        live = self.live.pop(path)
        if not np.array_equal(self.source.deleted_rows(removed), self._deleted_rows(live)):
            raise UnmergeableTableError(
                "source removed or rewrote files in which dest deleted, updated or restored rows",
                [path],
            )
        return removal(live, self.signature, removed.get("dataChange", True))

    def changes(self, changes: Sequence[VectorChange]) -> list[tuple[Action, Action]]:
        """Return the removal and the `add` of each changed file, in order.

        Raises OverlappingRowsError if both sides changed a row.
        """
        results, overlaps = list[_Result](), dict[str, list[int]]()
        for each in changes:
            path = FileKey.of(each.live).path
            before, after = map(self.source.deleted_rows, (each.before, each.after))
            live = self._deleted_rows(each.live)
            union = unite_vectors(before, after, live)
            if isinstance(union, VectorOverlap):
                overlaps[path] = union.rows.tolist()
                continue
            self._check_restored(path, np.setdiff1d(before, after, assume_unique=True))
            descriptions = [(each.live, live), (each.after, after), (each.before, before)]
            results.append(_Result(union.rows, _loose_stats(descriptions, union.rows)))
        if overlaps:
            raise OverlappingRowsError(overlaps)
        descriptors, files = new_vectors([each.rows for each in results])
        self.files.update(files)
        return [
            self._actions(change, descriptor, result)
            for change, descriptor, result in zip(changes, descriptors, results, strict=True)
        ]

    def _actions(
        self, change: VectorChange, descriptor: Mapping[str, Any] | None, result: _Result
    ) -> tuple[Action, Action]:
        fields = {name: each for name, each in change.live.items() if name != "deletionVector"}
        fields |= {"stats": result.stats, "dataChange": change.data_change}
        if descriptor is not None:
            fields["deletionVector"] = descriptor
        key = FileKey.of(fields)
        self.live[key.path] = fields
        self._rows[key] = result.rows
        return removal(change.live, self.signature, change.data_change), {"add": fields}

    def _deleted_rows(self, live: Fields) -> Positions:
        rows = self._rows.get(FileKey.of(live))
        return self.dest.deleted_rows(live) if rows is None else rows

    def _check_restored(self, path: str, rows: Positions) -> None:
        """Reject the restoration of rows that dest restored before, and then deleted again.

        The deletion to undo is then not the last one.
        """
        if not len(rows):
            return
        before: Positions | None = None
        for commit in self.dest.commits:
            removed, added = (commit.by_path(kind).get(path) for kind in _OF_LIVE[::-1])
            if removed is not None:
                before = self.dest.deleted_rows(removed)
            if added is None and removed is None:
                continue
            after = self.dest.deleted_rows(added) if added is not None else None
            if after is None or (
                before is not None and _overlap(np.setdiff1d(before, after), rows)
            ):
                raise UnmergeableTableError(
                    "rows to restore were restored, or their file removed, since they were deleted",
                    [path],
                )
            before = after


_OF_LIVE = ("add", "remove")


def _overlap(one: Positions, other: Positions) -> bool:
    return bool(len(np.intersect1d(one, other, assume_unique=True)))


def _loose_stats(descriptions: Sequence[tuple[Fields, Positions]], rows: Positions) -> str:
    """Return statistics for a file without the deleted `rows`.

    Bounds may omit rows that were deleted when they were computed. So they are those of a
    description without a row that is now live, or are left out.
    """
    plain = ""
    for fields, deleted in descriptions:
        try:
            stats = _decode(fields.get("stats") or "{}")
            count = int(bytes(stats["numRecords"]))
        except (*BAD_JSON, KeyError, ValueError):
            continue
        if len(rows) and int(rows[-1]) >= count:
            continue
        if not len(np.setdiff1d(deleted, rows, assume_unique=True)):
            return _encode({**stats, "tightBounds": False})
        plain = plain or _encode({"numRecords": count, "tightBounds": False})
    if not plain:
        raise UnmergeableTableError(
            "the log has no matching row count, which deletion vectors require",
            [FileKey.of(descriptions[0][0]).path],
        )
    return plain


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Values stay as they are written: a decimal may be no float."""


def _encode(stats: Mapping[str, Any]) -> str:
    return msgspec.json.encode(stats).decode()
