"""Merges of rows as Iceberg snapshots: changed files, partial tables, and dest's next snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import or_

from sparklake.errors import CorruptFileError
from sparklake.metadata.iceberg.documents import Document, Place
from sparklake.metadata.iceberg.entries import (
    EXISTING,
    Entry,
    FileKey,
    ManifestFile,
    has_deletes,
    rewritable,
)
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.union.column_ids import ColumnIds, in_ids_of_dest, own_ids, with_ids
from sparklake.metadata.iceberg.union.continuation import Continuation, IcebergSignature, Step
from sparklake.metadata.iceberg.union.dropped import net_changes
from sparklake.metadata.iceberg.union.settings import settled, specs_of
from sparklake.metadata.iceberg.union.snapshots import (
    MERGED,
    IcebergApart,
    IcebergCommit,
    Table,
    check_equality,
    check_identity,
    commits_since,
)
from sparklake.metadata.union.commits import commits_but, origins, still_to_undo
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.file_sets import Holders, changed_sets, side_names

_SOURCE, _DEST = -2, -1
_FIRST_ROW = 520
_OF_SIDES = ("last-sequence-number", "last-updated-ms", "next-row-id")
_EMPTY = ("metadata-log", "snapshot-log", "statistics", "partition-statistics")

DataFiles = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The live data files of merge bases, source and dest that a side changed, by path.

    A file with other deleted rows is a changed file. `differing` are the paths that two sides do
    not have alike. `touched` are the data and delete files that snapshots since the divergence
    added or removed, and that are live in dest.
    """

    sides: Sequence[DataFiles]
    differing: Mapping[tuple[int, int], frozenset[str]]
    touched: frozenset[FileKey]

    @staticmethod
    def of(tables: Sequence[Table]) -> RowFiles:
        changes = [net_changes(each) for each in commits_since(tables)]
        old = {key: each for _, removed in changes for key, each in removed.items()}
        live = [
            {**{key: each for key, each in old.items() if key not in removed}, **added}
            for added, removed in changes
        ]
        states = [*zip(tables, live, strict=True)]
        differing = {
            (one, other): _changed_files(states[one], states[other])
            for one, other in combinations(range(len(states)), 2)
        }
        every = frozenset[str]().union(*differing.values())
        recent = {key.path for each in (old, *live) for key in each}
        # No snapshot since the divergence changed these, so they are live on all sides or on none.
        others = _find_files(tables[_DEST], every - recent)
        sides = [
            {**others, **{key.path: entry for key, entry in each.items() if _is_data(entry)}}
            for each in live
        ]
        sides = [{path: side[path] for path in sorted(every & side.keys())} for side in sides]
        # Dest may have given other row ids than source to files from before the divergence.
        older = {path for path in sides[_DEST] if FileKey(path) not in changes[_DEST][0]}
        own = _find_files(tables[_DEST], older)
        if len(own) < len(older):
            raise CorruptFileError(f"no manifest of dest has {min(older - own.keys())}")
        sides[_DEST] |= own
        return RowFiles(sides, differing, frozenset(live[_DEST]))

    @property
    def sets(self) -> Mapping[Holders, DataFiles]:
        """The files by the sides that have them with the same deleted rows."""
        names = side_names(len(self.sides) - 2)
        return changed_sets(dict(zip(names, self.sides, strict=True)), self.differing)

    @property
    def editable(self) -> DataFiles:
        """Dest's files with possibly changing rows."""
        return self.sides[_DEST]


def is_merged_by_files(apart: IcebergApart) -> bool:
    """Return whether a union has the files of a three-way merge by files.

    It has others if dest has earlier commits of source, as after a cherry-pick, and changed their
    files.
    """
    undone = apart.undone()
    added, removed = net_changes(still_to_undo(undone, apart.dest) or apart.repeated())
    if undone:
        added, removed = removed, added
    changes = [net_changes(each) for each in (apart.base, apart.source, apart.dest)]
    old = {key for _, lost in changes for key in lost}
    for key in {*old, *(key for gained, _ in changes for key in gained)}:
        base, source, dest = (
            key in gained or (key in old and key not in lost) for gained, lost in changes
        )
        united = key in added or (dest and key not in removed)
        if united != (dest if source == base else source):
            return False
    return True


def _is_data(entry: Entry) -> bool:
    return entry.file.content is Content.DATA


def _changed_files(
    base: tuple[Table, Mapping[FileKey, Entry]], side: tuple[Table, Mapping[FileKey, Entry]]
) -> frozenset[str]:
    """Return the data files that one of two sides lacks, or in which it deleted other rows."""
    paths = set[str]()
    for (table, own), (_, other) in ((base, side), (side, base)):
        for entry in (each for key, each in own.items() if key not in other):
            paths.update([entry.file.path] if _is_data(entry) else table.deleted_rows(entry))
    return frozenset(paths)


def _find_files(table: Table, paths: Iterable[str]) -> DataFiles:
    """Look up live data files. Deletes may refer to others that were removed."""
    missing, files = {*paths}, dict[str, Entry]()
    for each in table.listed:
        if not missing:
            break
        if not has_deletes(each):
            live = table.manifest(each).live
            files.update((entry.file.path, entry) for entry in live if entry.file.path in missing)
            missing -= files.keys()
    return files


@dataclass(frozen=True, slots=True)
class MergedTable:
    """Dest's next metadata files by name, and the files that the merged rows added and removed."""

    files: Mapping[str, bytes]
    added: frozenset[FileKey]
    removed: frozenset[FileKey]


@dataclass(frozen=True)
class RowTables:
    """Merge bases, source and dest under the merged `settings`, those of dest's next metadata."""

    tables: Sequence[Table]
    settings: Document
    ids: Sequence[ColumnIds]
    """The ids in `settings` of each side's columns, as far as they differ."""
    merged: Sequence[str]
    """The origins of source's snapshots, of which dest gets the effects."""

    @staticmethod
    def of(tables: Sequence[Table]) -> RowTables:
        for each in tables:
            check_equality(each)
        *old, theirs, ours = commits_since(tables)
        for table, commits in zip(tables, old, strict=False):
            check_identity([table, *tables[_SOURCE:]], [commits, theirs, ours])
        (*bases, source, dest), ids = in_ids_of_dest([each.document for each in tables])
        settings, *others = (settled(each, source, dest, theirs, ours) for each in bases)
        if any(each != settings for each in others):
            raise UnmergeableTableError("the merge bases disagree on the table's settings")
        if settings["format-version"] > max(dest["format-version"], 2):
            raise UnmergeableTableError(
                "dest has files without row ids, because only source was upgraded: upgrade dest, "
                "too, and commit a change of its rows first"
            )
        # A merge base may have repeated the snapshots of another one.
        known = reduce(or_, map(origins, old))
        merged = (each for one in commits_but(theirs, known) for each in (one.origin, *one.merged))
        return RowTables(tables, settings, ids, tuple(merged))

    def partial(
        self, at: int, entries: Iterable[Entry], place: Place, name: str
    ) -> tuple[Document, dict[str, bytes]]:
        """Return a side's metadata with some of its data files, and new files by name.

        All deletes stay, with their manifests. Rows are read with the merged columns.
        """
        table, files = self.tables[at], dict[str, bytes]()
        settings = with_ids(self.settings, own_ids(self.ids[at], self.settings))
        document = {**settings, **dict.fromkeys(_EMPTY, ())}
        document |= {each: table.document[each] for each in _OF_SIDES if each in table.document}
        groups = defaultdict[str, list[Entry]](list)
        for each in entries:
            groups[each.manifest].append(each)
        current, listed = table.current, table.manifest_list
        if not groups or current is None or listed is None:
            document |= {"snapshots": [], "current-snapshot-id": -1, "refs": {}}
            return document, files
        deletes = [each for each in table.listed if has_deletes(each)]
        _check_specs(
            table.document,
            settings,
            {each[502] for each in deletes}
            | {each.file.spec_id for some in groups.values() for each in some},
        )
        version, number = int(document["format-version"]), current["snapshot-id"]
        rows = []
        for manifest_path, some in groups.items():
            manifest = rewritable(version, self._manifest(at, manifest_path))
            records = [each.with_status(EXISTING) for each in some]
            file = f"{METADATA_FOLDER}{name}-m{len(files)}.avro"
            files[file] = body = manifest.avro.with_records(records)
            sequence = int(current.get("sequence-number") or 0)
            fields = manifest.listing(place(file), body, records, number, sequence)
            # The entries have the row ids that they inherited.
            first = {_FIRST_ROW: manifest.listed[_FIRST_ROW]} if _FIRST_ROW in fields else {}
            rows.append({**fields, **first})
        file = f"{METADATA_FOLDER}{name}-snap.avro"
        files[file] = listed.rewritable(version).written(version, [*rows, *deletes], {})
        snapshot = {key: each for key, each in current.items() if key != "parent-snapshot-id"}
        snapshot |= {
            "manifest-list": place(file),
            "schema-id": document.get("current-schema-id", 0),
        }
        document |= {
            "snapshots": [snapshot],
            "current-snapshot-id": number,
            "refs": {"main": {"type": "branch", "snapshot-id": number}},
        }
        return document, files

    def _manifest(self, at: int, path: str) -> ManifestFile:
        # Each side may have other row ids in its list.
        tables = self.tables[at], *self.tables
        matches = (each.find_manifest(path) for each in tables)
        return next(each for each in matches if each is not None)

    def deletes(self, at: int) -> set[str]:
        """Return the paths of a side's delete files."""
        table = self.tables[at]
        manifests = (table.manifest(each) for each in table.listed if has_deletes(each))
        return {entry.file.path for each in manifests for entry in each.live}

    def continued(self, before: Table, after: Table, signature: IcebergSignature) -> MergedTable:
        """Return dest's next metadata.

        `before` and `after` are a partial table of dest, and the same one with the merged rows.
        """
        dest, source = self.tables[_DEST], self.tables[_SOURCE]
        if self.settings["format-version"] > 2 and any(
            each.get(_FIRST_ROW) is None for each in before.listed if not has_deletes(each)
        ):
            # Iceberg's MERGE would give them ids that dest may give to other rows.
            raise UnmergeableTableError(
                "dest has files without row ids, because it was upgraded to format version 3 and "
                "not changed since then. Commit a change of its rows first"
            )
        added, removed = net_changes(_commits_to(before, after))
        operation = "overwrite" if added and removed else "delete" if removed else "append"
        summary = {"operation": operation}
        if self.merged:
            summary[MERGED] = ",".join(self.merged)
        step = Step(summary, removed=dict(removed))
        for each in added.values():
            manifest = after.find_manifest(each.manifest)
            if manifest is None:
                raise CorruptFileError(f"the manifest {each.manifest} was not read")
            step.added.append((manifest, each))
        result = Continuation(dest, self.settings, signature)
        result.append(step, source.manifest_list)
        result.finished()
        return MergedTable(result.files, frozenset(added), frozenset(removed))


def _check_specs(own: Document, merged: Document, numbers: Iterable[int]) -> None:
    """Reject partition specs that files have, if the merged settings have others of their ids."""
    if any(specs_of(own).get(each) != specs_of(merged).get(each) for each in numbers):
        raise UnmergeableTableError("the sides have different partition specs of the same id")


def _commits_to(before: Table, after: Table) -> Sequence[IcebergCommit]:
    start = before.current["snapshot-id"] if before.current else None
    if start is not None and start not in {each["snapshot-id"] for each in after.lineage}:
        raise UnmergeableTableError("Iceberg replaced the history of the table with merged rows")
    return after.commits(start)
