"""Dest's files as far as its commits show them, and deletes on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklake.metadata.iceberg.entries import Entry, FileKey
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.union.snapshots import IcebergCommit, Table
from sparklake.metadata.union.commits import standing
from sparklake.metadata.union.conflicts import OverlappingRowsError, UnmergeableTableError
from sparklake.metadata.vectors.bitmaps import Positions, positions

_AFTER_OTHERS = (
    "source rewrote files, or dropped their deletes, after changes that dest lacks. Pick these "
    "first"
)


@dataclass
class FileStates:
    """The files that dest's commits added or removed, and in which they deleted rows.

    `touched` are the rows that commits only of dest deleted or restored, by data file.
    `source_rows` are those of source's commits that dest lacks and that are not repeated, as before
    a cherry-pick, `lacking` the files that these commits added, and `source_losses` the data files
    that they removed.
    """

    dest: Table
    commits: Sequence[IcebergCommit] = ()
    live: dict[FileKey, bool] = field(default_factory=dict)
    vectors: dict[str, Entry | None] = field(default_factory=dict)
    """The current vector of each data file whose vector changed."""
    touched: dict[str, Positions] = field(default_factory=dict)
    source_rows: dict[str, Positions] = field(default_factory=dict)
    source_losses: set[str] = field(default_factory=set)
    lacking: set[FileKey] = field(default_factory=set)
    last: dict[FileKey, IcebergCommit] = field(default_factory=dict)
    ours: set[FileKey] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    standing: set[int] = field(default_factory=set)

    @staticmethod
    def of(dest: Table, commits: Sequence[IcebergCommit], shared: Iterable[str]) -> FileStates:
        """Return the states after dest's commits. Those of `shared` origins are also source's."""
        states, common = FileStates(dest, commits), {*shared}
        states.standing.update(each.snapshot["snapshot-id"] for each in standing(commits))
        for each in commits:
            states.take(each.added, each.removed)
            states.last.update(dict.fromkeys((*each.added, *each.removed), each))
            if each.origin not in common:
                states.touch(changed_rows(dest, each))
        return states

    def lack(self, source: Table, commit: IcebergCommit) -> None:
        """Note a commit of source that dest lacks."""
        for key in commit.added:
            self.live.setdefault(key, False)
        self.lacking.update(commit.added)
        # Dest has the vector from before these commits.
        for each in (*commit.removed.values(), *commit.added.values()):
            if each.file.is_vector:
                is_live = each.key in commit.removed and self.is_live(each.key)
                self.vectors.setdefault(vector_target(each), each if is_live else None)
        _join(self.source_rows, changed_rows(source, commit))
        self.source_losses.update(each.file.path for each in commit.data_removed)

    def take(self, added: Mapping[FileKey, Entry], removed: Mapping[FileKey, Entry]) -> None:
        self.live.update(dict.fromkeys(removed, False))
        self.live.update(dict.fromkeys(added, True))
        self.vectors.update(
            (vector_target(each), None) for each in removed.values() if each.file.is_vector
        )
        self.vectors.update(
            (vector_target(each), each) for each in added.values() if each.file.is_vector
        )

    def touch(self, rows: Mapping[str, Positions]) -> None:
        _join(self.touched, rows)

    def is_live(self, key: FileKey) -> bool:
        """Return whether a file from before the divergence is live."""
        return self.live.get(key, True)

    def check(self, source: Table, commit: IcebergCommit) -> set[FileKey]:
        """Reject a commit whose files do not fit dest's; return the deletes that both replaced."""
        vectors = {vector_target(each) for each in commit.added.values() if each.file.is_vector}
        absent = {
            key
            for key, each in commit.removed.items()
            if not self.is_live(key)
            and not (each.file.is_vector and vector_target(each) in vectors)
        }
        replaced = {each for each in absent if self._is_replaced(source, commit, each)}
        lacking = absent & self.lacking - replaced
        if lacking:
            raise UnmergeableTableError(_AFTER_OTHERS, (each.path for each in lacking))
        if absent - replaced:
            raise UnmergeableTableError(
                "source removed or rewrote files that dest removed, rewrote or never had",
                sorted(each.path for each in absent - replaced),
            )
        self.check_untouched(commit.data_removed)
        before = [
            each.file.path for each in commit.data_removed if each.file.path in self.source_rows
        ]
        targets = {
            path
            for each in commit.removed.values()
            if self.source_losses and each.file.content is Content.POSITION_DELETES
            for path in source.deleted_rows(each)
        }
        if before or targets & self.source_losses:
            raise UnmergeableTableError(_AFTER_OTHERS, [*before, *(targets & self.source_losses)])
        twice = [key.path for key in commit.added if self.live.get(key)]
        if twice:
            raise UnmergeableTableError("both sides added the same files", twice)
        lost = [
            key.path
            for key in commit.added
            if self.live.get(key) is False and key not in self.ours and not self._had(key, commit)
        ]
        if lost:
            raise UnmergeableTableError("dest removed files that source added again", lost)
        return replaced

    def _is_replaced(self, source: Table, commit: IcebergCommit, key: FileKey) -> bool:
        """Return whether both sides replaced position deletes by others with their rows."""
        entry = commit.removed[key]
        if not is_plain_delete(entry) or key not in self.last or key not in self.last[key].removed:
            return False
        rows, theirs = source.deleted_rows(entry), deleted_rows(source, commit.added)
        lost = [row_changes(self.dest, each.added, each.removed)[1] for each in self.commits]
        return all(
            np.isin(some, theirs.get(path, positions())).all()
            and not any(np.isin(some, each.get(path, positions())).any() for each in lost)
            for path, some in rows.items()
        )

    def check_untouched(self, removed: Iterable[Entry]) -> None:
        touched = [each.file.path for each in removed if each.file.path in self.touched]
        if touched:
            raise UnmergeableTableError(
                "source removed or rewrote files in which dest deleted, updated or restored rows",
                touched,
            )

    def _had(self, key: FileKey, commit: IcebergCommit) -> bool:
        """Return whether source knew dest's last change of a file before a commit."""
        change = self.last[key]
        return (
            change.origin in self.passed
            or commit.origin in change.undone
            or change.snapshot["snapshot-id"] not in self.standing
        )

    def check_rows(
        self, source: Table, added: Mapping[FileKey, Entry], removed: Mapping[FileKey, Entry]
    ) -> None:
        """Reject position deletes, or their removal, that do not fit the rows deleted in dest."""
        plain = [
            {key: each for key, each in some.items() if is_plain_delete(each)}
            for some in (added, removed)
        ]
        more, restored = row_changes(source, *plain)
        self.check_deletes(
            {path: rows for path, rows in more.items() if FileKey(path) not in added}
        )
        late = [path for path, _ in self._overlaps(restored)]
        late += [
            path
            for path, rows in restored.items()
            if len(rows) and not self.is_live(FileKey(path)) and FileKey(path) not in self.ours
        ]
        if late:
            raise UnmergeableTableError(
                "source restored rows of files in which dest deleted rows", late
            )

    def check_deletes(self, rows: Mapping[str, Positions]) -> None:
        """Reject deletes in files that are not live in dest, or of rows that dest deleted."""
        absent = [path for path in rows if not self.is_live(FileKey(path))]
        if absent:
            raise UnmergeableTableError(
                "dest removed or rewrote files in which source deleted or updated rows", absent
            )
        overlaps = dict(self._overlaps(rows))
        if overlaps:
            raise OverlappingRowsError(overlaps)

    def _overlaps(self, rows: Mapping[str, Positions]) -> Iterator[tuple[str, list[int]]]:
        for path in rows.keys() & self.touched.keys():
            both = np.intersect1d(rows[path], self.touched[path])
            if len(both):
                yield path, both.tolist()


def is_plain_delete(entry: Entry) -> bool:
    """Return whether an entry is a file of position deletes, and not a vector."""
    return entry.file.content is Content.POSITION_DELETES and not entry.file.is_vector


def changed_rows(table: Table, commit: IcebergCommit) -> Mapping[str, Positions]:
    """Return the rows that a commit deleted or restored by delete files, by data file."""
    more, restored = row_changes(table, commit.added, commit.removed)
    rows = dict(more)
    _join(rows, restored)
    return rows


def row_changes(
    table: Table, added: Mapping[FileKey, Entry], removed: Mapping[FileKey, Entry]
) -> tuple[Mapping[str, Positions], Mapping[str, Positions]]:
    """Return the rows only in added and only in removed delete files, by data file."""
    after, before = (deleted_rows(table, each) for each in (added, removed))
    return _rows_but(after, before), _rows_but(before, after)


def _rows_but(
    rows: Mapping[str, Positions], others: Mapping[str, Positions]
) -> Mapping[str, Positions]:
    return {path: np.setdiff1d(some, others.get(path, positions())) for path, some in rows.items()}


def deleted_rows(table: Table, entries: Mapping[FileKey, Entry]) -> Mapping[str, Positions]:
    rows: dict[str, Positions] = {}
    for each in entries.values():
        if each.file.content is Content.POSITION_DELETES:
            _join(rows, table.deleted_rows(each))
    return rows


def _join(rows: dict[str, Positions], more: Mapping[str, Positions]) -> None:
    for path, some in more.items():
        rows[path] = np.union1d(rows.get(path, positions()), some)


def vector_target(entry: Entry) -> str:
    return entry.file.target or ""


def vectors_of(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the deletion vectors by data file."""
    result: dict[str, list[Entry]] = defaultdict(list)
    for each in entries:
        if each.file.is_vector:
            result[vector_target(each)].append(each)
    twice = [path for path, some in result.items() if len(some) > 1]
    if twice:
        raise UnmergeableTableError("a snapshot has several deletion vectors of a file", twice)
    return {path: some[0] for path, some in result.items()}
