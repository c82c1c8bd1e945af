"""Iceberg tables in trees: the current metadata, and the live files of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    MissingFileError,
    ObjectNotFoundError,
)
from sparklake.extras import missing_extras
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.layout import name_in_write
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, Location, current_metadata
from sparklake.metadata.iceberg.live import LiveFile, LiveFiles, read_position_deletes
from sparklake.metadata.iceberg.manifests import Manifest, TableFile, live_files, manifests_in
from sparklake.metadata.iceberg.metadata import (
    MAX_METADATA_BYTES,
    Snapshot,
    TableMetadata,
    parse_metadata,
)
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.content import read_body
from sparklake.verbs.tables.version import TableVersion


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """A table's snapshot at a ref: the current one, or that of a version.

    `name` is the path of its metadata file.
    """

    table: TableVersion
    name: str
    metadata: TableMetadata
    snapshot: Snapshot | None
    version: str | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of a version, or the current one, which may be newer than the snapshot."""
        return self.metadata.schema_of(None if self.version is None else self.snapshot)

    def live_files(self) -> list[LiveFile]:
        files = LiveFiles.of(self._files())
        deletes = (
            (each, read_position_deletes(self._body(each.path, each.size), each))
            for each in files.position_deletes
        )
        return list(files.with_deletes(deletes))

    def path(self, uri: str) -> str:
        """Return the repository path for a path in the metadata."""
        return self.table.folder + file_name(self.metadata.folder, uri)

    def paths(self, *, files: bool) -> Iterator[str]:
        """Yield the paths of the manifest list, the manifests and, optionally, their files."""
        if self.snapshot is not None and self.snapshot.manifest_list is not None:
            yield self.snapshot.manifest_list
        yield from (each.path for each in self.manifests())
        if files:
            yield from (each.path for each in self._files())

    def _files(self) -> Iterator[TableFile]:
        for each in self.manifests():
            yield from live_files(self._body(each.path, each.length), each)

    def manifests(self) -> Iterator[Manifest]:
        if self.snapshot is None:
            return
        if self.snapshot.manifest_list is None:
            yield from map(Manifest, self.snapshot.manifests)
        else:
            yield from manifests_in(self._body(self.snapshot.manifest_list))

    def _body(self, uri: str, size: int | None = None) -> bytes:
        return read_checked(self.table, self.path(uri), size)


def file_name(location: Location, uri: str) -> str:
    """Return the name in the table for a path in the metadata.

    Paths are addresses of objects, at the time of the commit. The name is the part below the
    table's location, or below the folder of a write.

    Raises:
        InvalidInputError: The file is outside of both.
    """
    return location.find_relative(uri) or name_in_write(uri) or location.relative(uri)


def open_iceberg(table: TableVersion, version: str | None = None) -> IcebergTable | None:
    """Open a table's current snapshot, or one by id, branch or tag; None without metadata."""
    with describing(table):
        info = find_metadata(table)
        if info is None:
            return None
        return parse_table(table, info, read_checked(table, info.path), version)


def parse_table(
    table: TableVersion,
    info: ObjectInfo,
    body: bytes,
    version: str | None = None,
    *,
    maps_names: bool = False,
) -> IcebergTable:
    """Return the table of a metadata file that was read."""
    metadata = parse_metadata(body, maps_names=maps_names)
    return IcebergTable(table, info.path, metadata, metadata.snapshot(version), version)


def find_metadata(table: TableVersion) -> ObjectInfo | None:
    folder = table.folder + METADATA_FOLDER
    keys = table.objects.within(prefix_interval(key_prefix(folder)))
    objects = {each.path.removeprefix(folder): each for each in keys}
    name = current_metadata(objects)
    return None if name is None else objects[name]


def read_checked(table: TableVersion, path: str, size: int | None = None) -> bytes:
    """Return the content of a file that the metadata references with a size."""
    try:
        info = table.snapshot.stat(path)
    except ObjectNotFoundError as error:
        raise MissingFileError(f"{table.ref!r} has no object {path!r}: restore it") from error
    return read_metadata(info, table.ref, size)


def read_metadata(info: ObjectInfo, ref: str, size: int | None = None) -> bytes:
    if info.size > MAX_METADATA_BYTES:
        raise InvalidInputError(f"{info.path!r} has more than {MAX_METADATA_BYTES:,} bytes")
    if size is not None:
        check_size(info.path, info.size, size)
    return read_body(info, ref)


def check_size(path: str, size: int, expected: int) -> None:
    if size != expected:
        raise CorruptFileError(
            f"{path!r} has {size:,} bytes, and the metadata expects {expected:,}: restore it"
        )


@contextmanager
def describing(table: TableVersion, problem: str = "cannot be read") -> Iterator[None]:
    """Add the table to errors about its metadata."""
    try:
        with missing_extras():
            yield
    except (CorruptFileError, InvalidInputError, MissingFileError) as error:
        what = f"the Iceberg table {table.path!r} at {table.ref!r} {problem}"
        raise type(error)(f"{what}: {error}") from error
