"""Private copies of Iceberg metadata, for Iceberg to read and commit to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.graveler.ports import Write
from sparklake.layout import name_in_write
from sparklake.metadata.iceberg.documents import Document, decode_document, encode_document
from sparklake.metadata.iceberg.edits import editable
from sparklake.metadata.iceberg.file_names import (
    METADATA_FOLDER,
    VERSION_HINT,
    Location,
    current_metadata,
    is_same_place,
)
from sparklake.metadata.iceberg.references import references
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import Snapshot
from sparklake.verbs.iceberg.tree_table import (
    IcebergTable,
    describing,
    find_metadata,
    parse_table,
    read_checked,
)
from sparklake.verbs.tables.version import TableVersion

_FIRST = "v1.metadata.json"


@dataclass(frozen=True, slots=True)
class BaseMetadata:
    """A table at the start of a write, and its current metadata."""

    iceberg: IcebergTable
    info: ObjectInfo
    document: Document

    @property
    def name(self) -> str:
        return self.info.path.rpartition("/")[2]

    @property
    def address(self) -> str:
        return spark_uri(self.info.address, self.location)

    @property
    def location(self) -> str:
        """The table's location, whose spelling of the bucket new paths have."""
        return self.iceberg.metadata.location


def copy_metadata(
    context: Context, table: TableVersion, write: Write, *, all_files: bool
) -> BaseMetadata | None:
    """Copy the current metadata to the place of a write; None without a table.

    Nothing else is copied: the metadata has the addresses of manifests, and these those of files.
    `all_files` verifies the addresses of data files, too.
    """
    with describing(table):
        info = find_metadata(table)
        if info is None:
            return None
        body = read_checked(table, info.path)
        iceberg = parse_table(table, info, body)
    with describing(table, "cannot be edited"):
        document = decode_document(body)
        place = f"{context.info.storage_namespace}/{write.place}"
        location = spark_uri(place, iceberg.metadata.location)
        if iceberg.metadata.folder.find_relative(location) is not None:
            raise InvalidInputError(
                f"its location {document['location']!r} contains the storage namespace: rewrite it "
                "into another folder"
            )
        check_paths(iceberg, files=all_files)
    put_document(context, write.place, document, location)
    return BaseMetadata(iceberg, info, document)


def put_document(context: Context, place: str, document: Document, location: str) -> None:
    """Put the first metadata of a copy."""
    folder = f"{place}/{METADATA_FOLDER}"
    bodies = {
        f"{folder}{_FIRST}": encode_document(editable(document, location)),
        f"{folder}{VERSION_HINT}": b"1",
    }
    context.store.put_many_if_absent(bodies)


def copied_document(context: Context, place: str, *, is_new: bool) -> Document | None:
    """Return the latest metadata of a copy; None without commits."""
    prefix = f"{place}/{METADATA_FOLDER}"
    latest = current_metadata(each.key.removeprefix(prefix) for each in context.store.list(prefix))
    if latest is None:
        raise InvalidInputError("its copy was dropped: to delete it, delete its folder")
    if latest == _FIRST and not is_new:
        return None
    return decode_document(context.store.get(f"{prefix}{latest}"))


def new_names(
    context: Context, write: Write, base: IcebergTable | None, document: Document
) -> set[str]:
    """Return the names of the files that commits to a copy added.

    Raises:
        InvalidInputError: A commit references files that are neither new nor of the table.
    """
    place = Location(spark_uri(f"{context.info.storage_namespace}/{write.place}"))
    paths = {
        path
        for path, _ in references(
            document,
            lambda path: context.store.get(f"{write.place}/{place.relative(path)}"),
            lambda path: place.find_relative(path) is not None,
        )
    }
    names = {path: place.find_relative(path) for path in paths}
    older = sorted(path for path, name in names.items() if name is None)
    if older and base is None:
        raise InvalidInputError(f"it references {older[0]!r}, which the write did not add")
    if base is not None:
        _check_same(base, older)
    return {name for name in names.values() if name is not None}


# --- addresses ------------------------------------------------------------------------------------


def check_paths(iceberg: IcebergTable, *, files: bool) -> None:
    """Compare paths of manifests, and optionally files, with the addresses in the tree."""
    # Addresses that end with the names need no manifests.
    _check_same(iceberg, [*iceberg.paths(files=files and not _are_in_place(iceberg))])


def _are_in_place(iceberg: IcebergTable) -> bool:
    """Return whether all addresses end with names."""
    table, location = iceberg.table, iceberg.metadata.folder
    folders = set[str]()
    for batch in table.objects.batches():
        names = pc.utf8_slice_codeunits(batch.column("path"), len(table.folder)).to_pylist()
        for name, address in zip(names, batch.column("address").to_pylist(), strict=True):
            if not name.startswith(METADATA_FOLDER):
                if not address.endswith(f"/{name}"):
                    return False
                folders.add(address[: -len(name)])
    files = [f"{each}file" for each in folders]
    return all("file" in (location.find_relative(each), name_in_write(each)) for each in files)


def _check_same(iceberg: IcebergTable, paths: Sequence[str]) -> None:
    check_addresses(iceberg.table.snapshot, {each: iceberg.path(each) for each in paths})


def check_addresses(snapshot: Snapshot, names: Mapping[str, str]) -> None:
    """Verify that paths in metadata are the addresses of the objects with the given names."""
    addresses = spark_uris(snapshot.lookup([*names.values()])["address"].combine_chunks())
    for (path, name), address in zip(names.items(), addresses.to_pylist(), strict=True):
        if address is None:
            raise InvalidInputError(
                f"it references {path!r}, and the ref has no object {name!r}: restore it, or write "
                "the rows of the file instead of adding it"
            )
        if not is_same_place(path, address):
            raise InvalidInputError(
                f"it references {path!r}, and the ref's object is {address!r}: export the table, "
                "and import the export"
            )
