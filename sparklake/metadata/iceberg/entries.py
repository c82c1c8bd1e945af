"""Manifest entries as they are stored, with inherited values, and manifests made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparklake.errors import InvalidInputError
from sparklake.metadata.iceberg.avro import AvroFile, ById
from sparklake.metadata.iceberg.manifests import (
    Content,
    Manifest,
    TableFile,
    parse_entry,
    parse_manifest,
)

EXISTING, ADDED, DELETED = 0, 1, 2

_STATUS, _SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE, _FILE = 0, 1, 3, 4, 2
_ROWS, _FIRST_ROW = 103, 142
_PARTITIONS, _LIST_CONTENT, _LIST_FIRST_ROW = 507, 517, 520

_ENTRY_FIELDS = {1: (_SNAPSHOT,), 2: (_SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE)}
_SECOND_VERSION = (
    *(("sequence_number", _SEQUENCE, "long?", None),),
    *(("file_sequence_number", _FILE_SEQUENCE, "long?", None), ("content", 134, "int", _FILE)),
)
"""The fields of entries that format version 1 lacks."""

_LIST_SECOND_VERSION = (
    *(("content", _LIST_CONTENT, "int"), ("sequence_number", 515, "long")),
    ("min_sequence_number", 516, "long"),
)
_LIST_FIELDS = {1: (500, 501, 502, 503), 2: (*range(500, 507), *range(512, 518)), 3: (520,)}


class FileKey(NamedTuple):
    """A data or delete file. Deletion vectors share a file, so they have an offset."""

    path: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A live entry with its inherited values. `manifest` is the path of its manifest."""

    fields: ById
    file: TableFile
    manifest: str

    @property
    def key(self) -> FileKey:
        return FileKey(self.file.path, self.file.offset if self.file.is_vector else None)

    @property
    def first_row_id(self) -> int | None:
        number: int | None = self.fields[_FILE].get(_FIRST_ROW)
        return number

    def added(self, snapshot: int) -> ById:
        """Return an entry for an added file, with inherited values."""
        file = {**self.fields[_FILE]}
        if _FIRST_ROW in file:
            file[_FIRST_ROW] = None
        inherited = {each: None for each in (_SEQUENCE, _FILE_SEQUENCE) if each in self.fields}
        return {**self.fields, **inherited, _STATUS: ADDED, _SNAPSHOT: snapshot, _FILE: file}

    def with_status(self, status: int, snapshot: int | None = None) -> ById:
        own = self.fields[_SNAPSHOT] if snapshot is None else snapshot
        return {**self.fields, _STATUS: status, _SNAPSHOT: own}

    def at_vector(self, path: str, offset: int, length: int, size: int, rows: int) -> Entry:
        """Return an entry for another deletion vector of the same data file."""
        place = {100: path, 103: rows, 104: size, 144: offset, 145: length}
        fields = {**self.fields, _FILE: {**self.fields[_FILE], **place}}
        manifest = Manifest(self.manifest, None, self.file.spec_id, True)
        return Entry(fields, parse_entry(fields, manifest), self.manifest)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest with its entry in a manifest list, and its live entries."""

    avro: AvroFile
    listed: ById
    live: Sequence[Entry]

    @staticmethod
    def of(body: bytes, listed: ById) -> ManifestFile:
        avro, manifest = AvroFile.of(body), parse_manifest(listed)
        return ManifestFile(avro, listed, tuple(_live(avro, listed, manifest)))

    def listing(
        self, path: str, body: bytes, rows: Sequence[ById], snapshot: int, sequence: int
    ) -> ById:
        """Return the list entry of a manifest with other rows."""
        counts = {
            number: sum(each[_STATUS] == status for each in rows)
            for number, status in ((504, ADDED), (505, EXISTING), (506, DELETED))
        }
        sums = {
            number: sum(each[_FILE][_ROWS] for each in rows if each[_STATUS] == status)
            for number, status in ((512, ADDED), (513, EXISTING), (514, DELETED))
        }
        live = [each for each in rows if each[_STATUS] != DELETED]
        own = (each.get(_SEQUENCE) for each in live)
        lowest = min((sequence if each is None else each for each in own), default=sequence)
        fields = {500: path, 501: len(body), 503: snapshot, 515: sequence, 516: lowest}
        fields |= counts | sums
        if _LIST_FIRST_ROW in self.listed:
            fields[_LIST_FIRST_ROW] = None
        return {**self.listed, **{k: v for k, v in fields.items() if k in self.listed}}


def _live(avro: AvroFile, listed: ById, manifest: Manifest) -> Iterator[Entry]:
    next_row = listed.get(_LIST_FIRST_ROW)
    for each in avro.records():
        if each.get(_STATUS) == DELETED:
            continue
        file = parse_entry(each, manifest)
        fields = {**each, _FILE: {**each[_FILE]}}
        if each.get(_SNAPSHOT) is None:
            fields[_SNAPSHOT] = listed[503]
        for number in (_SEQUENCE, _FILE_SEQUENCE):
            if fields.get(number) is None:
                fields[number] = manifest.sequence_number if each[_STATUS] == ADDED else 0
        fields[_FILE].setdefault(134, int(file.content))
        if file.content is Content.DATA:
            # A manifest of an earlier version has no field for row ids, and its files have some.
            first = fields[_FILE].setdefault(_FIRST_ROW, None)
            if first is None and next_row is not None:
                fields[_FILE][_FIRST_ROW] = next_row
                next_row += file.records
        yield Entry(fields, file, manifest.path)


def rewritable(version: int, manifest: ManifestFile) -> ManifestFile:
    """Return a manifest to write with other entries, with all fields of a format version.

    Raises:
        InvalidInputError: It lacks fields that rewritten entries need.
    """
    columns = {each["id"]: each for each in manifest.avro.schema["fields"]}
    if missing := {*_ENTRY_FIELDS[1]} - columns.keys():
        raise InvalidInputError(
            f"its manifest {manifest.listed[500]} lacks the fields {sorted(missing)} of format "
            f"version {version}"
        )
    if version > 1 and not {*_ENTRY_FIELDS[2]} <= columns.keys():
        avro = manifest.avro
        for each in _SECOND_VERSION:
            avro = avro.with_field(*each)
        # Their places in the list are those of a file before sequence numbers.
        listed = {**dict.fromkeys((number for _, number, _ in _LIST_SECOND_VERSION), 0)}
        header = {**avro.header, "format-version": b"2", "content": b"data"}
        avro = replace(avro, header=header)
        manifest = replace(manifest, avro=avro, listed={**listed, **manifest.listed})
    names = {each["id"] for each in columns.get(_FILE, {}).get("type", {}).get("fields", ())}
    if version > 2 and manifest.listed.get(_LIST_CONTENT) == 0 and _FIRST_ROW not in names:
        avro = manifest.avro.with_field("first_row_id", _FIRST_ROW, "long?", _FILE)
        return replace(manifest, avro=avro)
    return manifest


def has_deletes(listed: ById) -> bool:
    """Return whether a manifest in a list has delete files instead of data files."""
    return bool(listed.get(_LIST_CONTENT))


@dataclass(frozen=True, slots=True)
class ManifestList:
    """A manifest list. In entries, the summary of a partition column is a mapping by field id."""

    avro: AvroFile
    entries: Mapping[str, ById]

    @staticmethod
    def of(body: bytes) -> ManifestList:
        avro = AvroFile.of(body)
        names = _summary_fields(avro)
        entries = dict[str, ById]()
        for each in avro.records():
            columns = each.get(_PARTITIONS)
            if columns is not None:
                pairs = [dict(zip(names, one, strict=True)) for one in columns]
                each = {**each, _PARTITIONS: pairs}
            entries[parse_manifest(each).path] = each
        return ManifestList(avro, entries)

    def rewritable(self, version: int) -> ManifestList:
        """Return a list with all fields of a format version, for new entries."""
        ids, avro = {each["id"] for each in self.avro.schema["fields"]}, self.avro
        for name, number, kind in _LIST_SECOND_VERSION if version > 1 else ():
            if number not in ids:
                avro = avro.with_field(name, number, kind)
        if version > 2 and _LIST_FIRST_ROW not in ids:
            avro = avro.with_field("first_row_id", _LIST_FIRST_ROW, "long?")
        return replace(
            self, avro=replace(avro, header={**avro.header, "format-version": b"%d" % version})
        )

    def written(self, version: int, entries: Iterable[ById], header: Mapping[str, str]) -> bytes:
        """Return a manifest list of the same schema. Entries may be those of another one."""
        fields = {each["id"]: each["type"] for each in self.avro.schema["fields"]}
        needed = {number for at in range(1, version + 1) for number in _LIST_FIELDS[at]}
        if missing := needed - fields.keys():
            raise InvalidInputError(f"its manifest list lacks the fields {sorted(missing)}")
        rows, names = [], _summary_fields(self.avro)
        for each in entries:
            if unknown := {
                number for number in each.keys() - fields.keys() if each[number] is not None
            }:
                raise InvalidInputError(
                    f"its manifest list has the unknown fields {sorted(unknown)}"
                )
            row = {number: each.get(number) for number in fields}
            for _, number, _ in _LIST_SECOND_VERSION:
                if number in row and row[number] is None:
                    row[number] = 0
            # The bounds of a manifest apply to one with fewer files, too.
            columns = row.get(_PARTITIONS)
            if columns is not None:
                row[_PARTITIONS] = [[one.get(name) for name in names] for one in columns]
            rows.append(row)
        return self.avro.with_records(rows, header)


def _summary_fields(avro: AvroFile) -> list[int]:
    """Return the field ids of a partition summary."""
    kinds = [each["type"] for each in avro.schema["fields"] if each["id"] == _PARTITIONS]
    arrays = (each for kind in kinds for each in (kind if isinstance(kind, list) else [kind]))
    fields = [each["items"]["fields"] for each in arrays if each != "null"]
    return [each["id"] for each in fields[0]] if fields else []
