"""The continuation of dest's snapshots: sequence numbers, row ids, manifests and metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparklake.metadata.iceberg.avro import ById
from sparklake.metadata.iceberg.documents import Document, encode_document, with_former
from sparklake.metadata.iceberg.entries import (
    ADDED,
    DELETED,
    EXISTING,
    Entry,
    FileKey,
    ManifestFile,
    ManifestList,
    has_deletes,
    rewritable,
)
from sparklake.metadata.iceberg.file_names import (
    METADATA_FOLDER,
    VERSION_HINT,
    current_metadata,
    metadata_version,
    next_metadata,
)
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.union.snapshots import Table
from sparklake.metadata.union.conflicts import UnmergeableTableError

_TOTALS = {
    "data-files": ("added-data-files", "deleted-data-files"),
    "records": ("added-records", "deleted-records"),
    "files-size": ("added-files-size", "removed-files-size"),
    "delete-files": ("added-delete-files", "removed-delete-files"),
    "position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


@dataclass(frozen=True, slots=True)
class IcebergSignature:
    """The place and time of a union's files.

    `place` returns the path for a file's name in the table, and `token` is unique. `metadata_path`
    is the path of dest's current metadata, and `names` are those of dest's metadata files.
    """

    timestamp: int
    token: str
    place: Callable[[str], str]
    metadata_path: str
    names: Collection[str]


@dataclass(slots=True)
class Step:
    """The changes of one snapshot: files to add, by their manifests, and files to remove.

    `unchanged` are manifests without removed files. Files keep their sequence numbers and row ids
    if they are `restored`.
    """

    summary: Mapping[str, str]
    added: list[tuple[ManifestFile, Entry]] = field(default_factory=list)
    removed: dict[FileKey, Entry] = field(default_factory=dict)
    unchanged: Collection[str] = ()
    restored: bool = False


@dataclass
class Continuation:
    dest: Table
    document: Document
    signature: IcebergSignature
    files: dict[str, bytes] = field(default_factory=dict)
    """The new files by name in the table."""

    def __post_init__(self) -> None:
        self.version = int(self.document["format-version"])
        self._current = self.dest.current
        self._list = self.dest.manifest_list
        self._listed = dict(self._list.entries) if self._list else {}
        self._new: dict[str, ManifestFile] = {}
        self._bodies: dict[str, bytes] = {}
        self._snapshots: list[Mapping[str, Any]] = []
        self._time = max(
            self.signature.timestamp, int(self.document.get("last-updated-ms") or 0) + 1
        )
        self._sequence = int(self.document.get("last-sequence-number") or 0)
        self._next_row = int(self.document.get("next-row-id") or 0)

    def put(self, name: str, body: bytes) -> str:
        self.files[name] = body
        return self.signature.place(name)

    def find_manifest(self, path: str) -> ManifestFile | None:
        return self._new.get(path)

    def new_name(self, kind: str) -> str:
        return f"{self.signature.token}-{kind}{len(self.files)}"

    def append(self, step: Step, template: ManifestList | None) -> None:
        """Append a snapshot. `template` is a manifest list for a dest without one."""
        number, sequence = self._snapshot_id(), self._sequence + 1
        added = self._added(step, number, sequence)
        retained = self._retained(step, number, sequence)
        listed = {each[500]: each for each in (*added, *retained)}
        first_row, rows = self._next_row, 0
        if self.version > 2:
            listed, rows = self._with_rows(listed)
        template = self._list or template
        if template is None:
            raise UnmergeableTableError("neither side has a manifest list")
        parent = None if self._current is None else self._current["snapshot-id"]
        header = {"snapshot-id": str(number), "parent-snapshot-id": str(parent or "null")}
        if self.version > 1:
            header["sequence-number"] = str(sequence)
        if self.version > 2:
            header["first-row-id"] = str(first_row)
        body = template.rewritable(self.version).written(self.version, listed.values(), header)
        name = f"{METADATA_FOLDER}snap-{number}-1-{self.signature.token}.avro"
        snapshot: dict[str, Any] = {
            "snapshot-id": number,
            "timestamp-ms": self._time + len(self._snapshots),
            "manifest-list": self.put(name, body),
            "summary": {**step.summary, **self._counts(step)},
            "schema-id": self.document.get("current-schema-id", 0),
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        if self.version > 1:
            snapshot["sequence-number"] = self._sequence = sequence
        if self.version > 2:
            snapshot |= {"first-row-id": first_row, "added-rows": rows}
            self._next_row += rows
        self._list = ManifestList.of(body)
        self._listed = dict(self._list.entries)
        self._current = snapshot
        self._snapshots.append(snapshot)

    def _snapshot_id(self) -> int:
        text = f"{self.signature.token}/{len(self._snapshots)}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1 or 1

    def _added(self, step: Step, number: int, sequence: int) -> list[ById]:
        groups: dict[str, tuple[ManifestFile, list[Entry]]] = {}
        for manifest, entry in step.added:
            groups.setdefault(manifest.listed[500], (manifest, []))[1].append(entry)
        return [
            self._written(
                manifest,
                [
                    each.with_status(ADDED, number) if step.restored else each.added(number)
                    for each in entries
                ],
                number,
                sequence,
            )
            for manifest, entries in groups.values()
        ]

    def _retained(self, step: Step, number: int, sequence: int) -> list[ById]:
        """Return the manifests of dest, without the removed files."""
        places = {
            (each.file.content is not Content.DATA, each.file.spec_id)
            for each in step.removed.values()
        }
        missing = {**step.removed}
        result = []
        for path, listed in self._listed.items():
            place = has_deletes(listed), listed[502]
            if path in step.unchanged or place not in places:
                result.append(listed)
                continue
            manifest = self._new.get(path) or self.dest.manifest(listed)
            lost = [each for each in manifest.live if each.key in step.removed]
            for each in lost:
                self._check_row_ids(step, missing.pop(each.key), each)
            if not lost:
                result.append(listed)
                continue
            rows = [
                each.with_status(DELETED, number)
                if each.key in step.removed
                else each.with_status(EXISTING)
                for each in manifest.live
            ]
            result.append(self._written(manifest, rows, number, sequence))
        if missing:
            raise UnmergeableTableError(
                "source removed or rewrote files that dest removed, rewrote or never had",
                (each.path for each in missing),
            )
        return result

    @staticmethod
    def _check_row_ids(step: Step, removed: Entry, live: Entry) -> None:
        """Reject rows that were rewritten with other row ids than they have in dest."""
        if step.added and not step.restored and removed.first_row_id != live.first_row_id:
            raise UnmergeableTableError(
                "source rewrote rows whose row ids are different in dest, because both sides added "
                "rows. Repeat the change on a branch of dest",
                [removed.file.path],
            )

    def _written(
        self, manifest: ManifestFile, rows: Sequence[ById], number: int, sequence: int
    ) -> ById:
        manifest = rewritable(self.version, manifest)
        body = manifest.avro.with_records(rows)
        path = self.put(f"{METADATA_FOLDER}{self.new_name('m')}.avro", body)
        listed = manifest.listing(path, body, rows, number, sequence)
        self._new[path], self._bodies[path] = ManifestFile.of(body, listed), body
        return listed

    def _with_rows(self, listed: Mapping[str, ById]) -> tuple[dict[str, ById], int]:
        """Assign row ids to the data manifests that have none."""
        result, rows = dict(listed), 0
        for path, each in listed.items():
            if not has_deletes(each) and each.get(520) is None:
                result[path] = {**each, 520: self._next_row + rows}
                rows += each[512] + each[513]
                if path in self._new:
                    self._new[path] = ManifestFile.of(self._bodies[path], result[path])
        return result, rows

    def _counts(self, step: Step) -> dict[str, str]:
        added, removed = (each for _, each in step.added), step.removed.values()
        sums = [_sums(each) for each in (added, removed)]
        counts = {}
        previous = {} if self._current is None else self._current.get("summary") or {}
        for name, labels in _TOTALS.items():
            one, other = (each.get(name, 0) for each in sums)
            counts.update(
                {label: str(n) for label, n in zip(labels, (one, other), strict=True) if n}
            )
            total = previous.get(f"total-{name}", "0" if self._current is None else "")
            if total.isdigit():
                counts[f"total-{name}"] = str(int(total) + one - other)
        return counts

    def finished(self) -> None:
        """Write the metadata, as the next version of dest's."""
        document = with_former(self.document, self.document, self.signature.metadata_path)
        document["last-updated-ms"] = self._time + max(len(self._snapshots) - 1, 0)
        if self._snapshots:
            new = self._snapshots[-1]["snapshot-id"]
            document["snapshots"] = [*(document.get("snapshots") or ()), *self._snapshots]
            document["current-snapshot-id"] = new
            document["snapshot-log"] = [
                *(document.get("snapshot-log") or ()),
                *(
                    {name: each[name] for name in ("timestamp-ms", "snapshot-id")}
                    for each in self._snapshots
                ),
            ]
            refs = document.get("refs") or {}
            main = {"type": "branch", **(refs.get("main") or {}), "snapshot-id": new}
            document["refs"] = {**refs, "main": main}
        if self.version > 1:
            document["last-sequence-number"] = self._sequence
        if self.version > 2:
            document["next-row-id"] = self._next_row
        name = next_metadata(current_metadata(self.signature.names), self.signature.token)
        self.put(METADATA_FOLDER + name, encode_document(document))
        if VERSION_HINT in self.signature.names:
            version = metadata_version(name)
            self.files[METADATA_FOLDER + VERSION_HINT] = str(version).encode()


def _sums(entries: Iterable[Entry]) -> dict[str, int]:
    sums = dict.fromkeys(_TOTALS, 0)
    for each in entries:
        is_data = each.file.content is Content.DATA
        sums["data-files" if is_data else "delete-files"] += 1
        sums["records" if is_data else "position-deletes"] += each.file.records
        sums["files-size"] += (each.file.length if each.file.is_vector else each.file.size) or 0
    return sums
