"""Iceberg snapshots as commits: the files added and removed by each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from sparklake.errors import CorruptFileError
from sparklake.metadata.iceberg.avro import ById
from sparklake.metadata.iceberg.documents import Document
from sparklake.metadata.iceberg.entries import (
    Entry,
    FileKey,
    ManifestFile,
    ManifestList,
    has_deletes,
)
from sparklake.metadata.iceberg.live import read_position_deletes
from sparklake.metadata.iceberg.manifests import Content, TableFile
from sparklake.metadata.iceberg.puffin import unframed
from sparklake.metadata.union.commits import CommitsApart, effects, origins
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.vectors.bitmaps import Positions, decode_bitmap, positions

ORIGIN = "sparklake.origin"
"""The field in the summary of a repeated snapshot for the original's identity."""

UNDONE = "sparklake.undone"
"""The field in the summary of an undo for the identities of the undone snapshots."""

MERGED = "sparklake.merged"
"""The field in the summary of a merge of rows for the identities of the merged snapshots."""

UUID = "table-uuid"

OPERATIONS = ("append", "replace", "overwrite", "delete")

Read = Callable[[str], bytes]
"""A function from a path in the metadata to the file."""


@dataclass(frozen=True)
class IcebergCommit:
    """A snapshot as a commit. `manifests` are the paths in its manifest list."""

    snapshot: Mapping[str, Any]
    added: Mapping[FileKey, Entry]
    removed: Mapping[FileKey, Entry]
    manifests: frozenset[str]

    @property
    def summary(self) -> Mapping[str, str]:
        return self.snapshot.get("summary") or {}

    @property
    def operation(self) -> str:
        return str(self.summary.get("operation"))

    @property
    def origin(self) -> str:
        return str(self.summary.get(ORIGIN) or self.snapshot["snapshot-id"])

    @property
    def undone(self) -> Sequence[str]:
        return self._recorded(UNDONE)

    @property
    def merged(self) -> Sequence[str]:
        return self._recorded(MERGED)

    def _recorded(self, name: str) -> Sequence[str]:
        recorded = self.summary.get(name)
        return tuple(recorded.split(",")) if recorded else ()

    @cached_property
    def data_added(self) -> list[Entry]:
        return [each for each in self.added.values() if each.file.content is Content.DATA]

    @cached_property
    def data_removed(self) -> list[Entry]:
        return [each for each in self.removed.values() if each.file.content is Content.DATA]


IcebergApart: TypeAlias = CommitsApart[IcebergCommit]


@dataclass
class Table:
    """A table on one side. `find` reads a file of the tree by its path in the metadata."""

    document: Document
    find: Read
    _manifests: dict[str, ManifestFile] = field(default_factory=dict)
    _rows: dict[FileKey, Mapping[str, Positions]] = field(default_factory=dict)

    @cached_property
    def lineage(self) -> list[Mapping[str, Any]]:
        """The snapshots of the main branch in order, as far as they are retained."""
        every = {each["snapshot-id"]: each for each in self.document.get("snapshots") or ()}
        number, result = self.document.get("current-snapshot-id"), list[Mapping[str, Any]]()
        while number in every:
            result.append(every.pop(number))
            number = result[-1].get("parent-snapshot-id")
        if not result and number not in (None, -1):
            raise CorruptFileError(f"its metadata has no snapshot {number}")
        return result[::-1]

    @property
    def current(self) -> Mapping[str, Any] | None:
        """The current snapshot."""
        return self.lineage[-1] if self.lineage else None

    @cached_property
    def manifest_list(self) -> ManifestList | None:
        """The manifest list of the current snapshot."""
        return self.list_of(self.current)

    @property
    def listed(self) -> Iterable[ById]:
        """The entries of `manifest_list`."""
        return self.manifest_list.entries.values() if self.manifest_list else ()

    @property
    def is_complete(self) -> bool:
        """Whether the lineage reaches the first snapshot."""
        return not self.lineage or self.lineage[0].get("parent-snapshot-id") in (None, -1)

    def list_of(self, snapshot: Mapping[str, Any] | None) -> ManifestList | None:
        if snapshot is None:
            return None
        if not snapshot.get("manifest-list"):
            raise UnmergeableTableError("its snapshots have no manifest lists")
        return ManifestList.of(self.find(snapshot["manifest-list"]))

    def manifest(self, listed: ById) -> ManifestFile:
        path = listed[500]
        if path not in self._manifests:
            body = self.find(path)
            if len(body) != listed[501]:
                raise CorruptFileError(f"{path} does not have the {listed[501]:,} expected bytes")
            self._manifests[path] = ManifestFile.of(body, listed)
        return self._manifests[path]

    def find_manifest(self, path: str) -> ManifestFile | None:
        """Return an already read manifest."""
        return self._manifests.get(path)

    def commits(self, after: int | None) -> list[IcebergCommit]:
        """Return the commits after a snapshot of the lineage, or all."""
        ids = [each["snapshot-id"] for each in self.lineage]
        at = 0 if after is None else ids.index(after) + 1
        previous = self.list_of(self.lineage[at - 1] if at else None)
        result = []
        for each in self.lineage[at:]:
            current = self.list_of(each)
            assert current is not None
            result.append(self._commit(each, previous, current))
            previous = current
        return result

    def _commit(
        self, snapshot: Mapping[str, Any], before: ManifestList | None, after: ManifestList
    ) -> IcebergCommit:
        old = {} if before is None else before.entries
        dropped = self._live(listed for path, listed in old.items() if path not in after.entries)
        new = self._live(listed for path, listed in after.entries.items() if path not in old)
        commit = IcebergCommit(
            snapshot,
            {key: each for key, each in new.items() if key not in dropped},
            {key: each for key, each in dropped.items() if key not in new},
            frozenset(after.entries),
        )
        if commit.operation not in OPERATIONS:
            raise UnmergeableTableError(
                f"snapshot {snapshot['snapshot-id']} has the unknown operation {commit.operation!r}"
            )
        for each in (*commit.added.values(), *commit.removed.values()):
            if each.file.content is Content.EQUALITY_DELETES:
                raise UnmergeableTableError(
                    "it has equality deletes, as Flink writes them", [each.file.path]
                )
        return commit

    def _live(self, listed: Iterable[ById]) -> dict[FileKey, Entry]:
        live: dict[FileKey, Entry] = {}
        for each in listed:
            for entry in self.manifest(each).live:
                if entry.key in live:
                    raise CorruptFileError(f"two live manifest entries exist for {entry.key.path}")
                live[entry.key] = entry
        return live

    def deleted_rows(self, entry: Entry) -> Mapping[str, Positions]:
        """Return the rows in a file of position deletes or in a vector, by data file."""
        if entry.key not in self._rows:
            self._rows[entry.key] = _deleted_rows(entry.file, self.find(entry.file.path))
        return self._rows[entry.key]


def _deleted_rows(file: TableFile, body: bytes) -> Mapping[str, Positions]:
    if len(body) != file.size:
        raise CorruptFileError(f"{file.path} does not have the {file.size:,} expected bytes")
    if file.is_vector:
        return {_target(file): decode_vector(body, file)}
    table = read_position_deletes(body, file)
    groups = table.group_by("file_path").aggregate([("pos", "list")])
    paths, rows = (groups.column(each) for each in ("file_path", "pos_list"))
    return {
        path.as_py(): positions(*numbers.as_py()) for path, numbers in zip(paths, rows, strict=True)
    }


def decode_vector(body: bytes, file: TableFile) -> Positions:
    """Decode the deletion vector at its place in a Puffin file, with a check of its CRC."""
    blob = unframed(body[file.offset or 0 :][: file.length or 0])
    rows = decode_bitmap(blob)
    if len(rows) != file.records:
        raise CorruptFileError(f"{file.path} has {len(rows):,} rows, not {file.records:,}")
    return rows


def _target(file: TableFile) -> str:
    if file.target is None:
        raise CorruptFileError(f"the deletion vector {file.path} has no data file")
    return file.target


def check_equality(table: Table) -> None:
    """Reject tables with equality deletes, or without a record of having none."""
    if table.current is None or not any(map(has_deletes, table.listed)):
        return
    if (table.current.get("summary") or {}).get("total-equality-deletes") != "0":
        raise UnmergeableTableError(
            "it has equality deletes, or does not record in its snapshot that it has none. Compact "
            "it with rewrite_data_files first"
        )


def check_identity(tables: Sequence[Table], histories: Sequence[Sequence[IcebergCommit]]) -> None:
    """Reject another table on a side, given base first and the commits since the divergence.

    A table that both sides created and a merge united has all commits of base, by their origin.
    """
    base, old = tables[0], histories[0]
    for table, commits in zip(tables[1:], histories[1:], strict=True):
        is_other = table.document.get(UUID) != base.document.get(UUID)
        if is_other and (len(old) < len(base.lineage) or origins(old) - effects(commits)):
            raise UnmergeableTableError(f"a side changed its {UUID}, or is another table")


def commits_apart(base: Table, source: Table, dest: Table) -> IcebergApart:
    return CommitsApart(*commits_since([base, source, dest]))


def commits_since(tables: Sequence[Table]) -> list[list[IcebergCommit]]:
    """Return each side's commits since all of them diverged. The first side is a merge base."""
    at = _diverged_at(*tables)
    return [each.commits(at) for each in tables]


def _diverged_at(base: Table, *sides: Table) -> int | None:
    """Return the last snapshot that all sides have, or None if they start differently."""
    others = [{each["snapshot-id"] for each in side.lineage} for side in sides]
    for each in reversed(base.lineage):
        number: int = each["snapshot-id"]
        if all(number in ids for ids in others):
            return number
    if not all(side.is_complete for side in (base, *sides)):
        raise UnmergeableTableError(
            "a side expired the snapshots since the sides diverged, so its changes are unknown"
        )
    return None
