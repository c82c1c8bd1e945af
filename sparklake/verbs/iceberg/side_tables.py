"""Iceberg tables on the sides of a merge."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from sparklake.errors import CorruptFileError, InvalidInputError, ObjectNotFoundError
from sparklake.extras import missing_extras
from sparklake.graveler.ids import MetaRangeId
from sparklake.metadata.formats import table_of
from sparklake.metadata.iceberg.documents import Document, decode_document
from sparklake.metadata.iceberg.file_names import Location, current_metadata
from sparklake.metadata.iceberg.union.continuation import IcebergSignature
from sparklake.metadata.iceberg.union.settings import common_start
from sparklake.metadata.iceberg.union.snapshots import Table
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import BASE, SIDE_NAMES, ThreeWayTrees
from sparklake.verbs.base.snapshot import Snapshot, snapshot_over
from sparklake.verbs.iceberg.table_copy import check_addresses
from sparklake.verbs.iceberg.tree_table import file_name, read_metadata
from sparklake.verbs.tables.metadata_folders import MetadataFolder


@contextmanager
def unmergeable() -> Iterator[None]:
    """Convert errors about unreadable metadata."""
    try:
        with missing_extras():
            yield
    except (CorruptFileError, InvalidInputError) as error:
        raise UnmergeableTableError(str(error)) from error


@dataclass(frozen=True)
class SideTable:
    """A table in a tree, by its current metadata. `name` is that of the side.

    `bodies` are the metadata files that the sides read, by address.
    """

    context: Context
    tree: MetaRangeId
    name: str
    metadata: MetadataFolder
    info: ObjectInfo
    document: Document
    bodies: dict[str, bytes]

    @staticmethod
    def of(
        context: Context,
        tree: MetaRangeId,
        name: str,
        metadata: MetadataFolder,
        bodies: dict[str, bytes],
    ) -> SideTable | None:
        start = len(metadata.folder)
        current = current_metadata(key[start:].decode(errors="replace") for key in metadata.records)
        if current is None:
            return None
        key = metadata.folder + current.encode()
        return SideTable(
            context=context,
            tree=tree,
            name=name,
            metadata=metadata,
            info=metadata.file(key),
            document=decode_document(metadata.body(key)),
            bodies=bodies,
        )

    @cached_property
    def table(self) -> Table:
        return Table(self.document, self.read)

    @cached_property
    def _location(self) -> Location:
        return Location(self.document["location"])

    @cached_property
    def _snapshot(self) -> Snapshot:
        return snapshot_over(self.context, self.name, self.context.trees.get(self.tree))

    def key(self, path: str) -> bytes:
        """Return the key of a file by its path in the metadata."""
        return table_of(self.metadata.folder) + file_name(self._location, path).encode()

    def read(self, path: str) -> bytes:
        try:
            info = self._snapshot.stat(self.key(path).decode())
        except ObjectNotFoundError as error:
            raise UnmergeableTableError(
                "the table's metadata refers to a missing file", [path]
            ) from error
        if info.address not in self.bodies:
            self.bodies[info.address] = read_metadata(info, self.name)
        return self.bodies[info.address]

    def check_addresses(self, paths: Iterable[str]) -> None:
        """Verify that paths in the metadata are the addresses of their objects."""
        check_addresses(self._snapshot, {each: self.key(each).decode() for each in paths})


def side_tables(
    context: Context, sides: ThreeWayTrees, folders: Sequence[MetadataFolder]
) -> list[SideTable]:
    """Return the table on each side. Raises UnmergeableTableError."""
    bodies: dict[str, bytes] = {}
    base, source, dest = (
        SideTable.of(context, *each, bodies)
        for each in zip(sides.trees, SIDE_NAMES, folders, strict=True)
    )
    if source is None or dest is None:
        raise UnmergeableTableError(
            "one side deleted the table's metadata, and the other changed it"
        )
    if base is None:
        # Both sides created the table.
        start = common_start(source.document, dest.document)
        base = replace(dest, name=SIDE_NAMES[BASE], document=start)
    return [base, source, dest]


def union_signature(dest: SideTable, place: str) -> IcebergSignature:
    """Return a union's signature, with new files in a folder of the storage namespace."""
    start, namespace = len(dest.metadata.folder), dest.context.info.storage_namespace
    location = dest.document["location"]
    return IcebergSignature(
        timestamp=time.time_ns() // 1_000_000,
        token=str(uuid.uuid4()),
        place=lambda name: spark_uri(f"{namespace}/{place}/{name}", location),
        metadata_path=spark_uri(dest.info.address, location),
        names=[key[start:].decode(errors="replace") for key in dest.metadata.records],
    )
