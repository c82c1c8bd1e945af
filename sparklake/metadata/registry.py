"""The registry of table formats with metadata."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.metadata.delta.file_names import DELTA
from sparklake.metadata.formats import MetadataFiles
from sparklake.metadata.iceberg.file_names import ICEBERG

BUILT_IN: tuple[MetadataFiles, ...] = (DELTA, ICEBERG)
"""The formats of this package. First: a Delta table may have Iceberg's metadata, too."""

FOREIGN = (
    MetadataFiles(name="Hudi", folder=".hoodie/"),
    MetadataFiles(name="Lance", folder="_versions/"),
)
"""Formats that are recognized, and rejected."""


def all_formats() -> tuple[MetadataFiles, ...]:
    return (*BUILT_IN, *FOREIGN)


def folder_names() -> list[bytes]:
    return [each.folder.encode() for each in BUILT_IN]


def find_format(name: str) -> MetadataFiles | None:
    """Return the supported format of a name in any case, or None."""
    return next((each for each in BUILT_IN if each.name.lower() == name.lower()), None)


def format_of(folder: bytes) -> MetadataFiles:
    """Return the format of a metadata folder."""
    return next(each for each in BUILT_IN if folder.endswith(each.folder.encode()))


def find_folder(key: bytes) -> bytes | None:
    """Return the metadata folder of a key that commits change, with a slash, or None."""
    return next(filter(None, (each.find_folder(key) for each in BUILT_IN)), None)


def changed_folders(keys: pa.BinaryArray, *, with_rules: bool = True) -> set[bytes]:
    """Return the metadata folders of changed keys, without those that rules may exclude."""
    folders = set[bytes]()
    for each in BUILT_IN:
        if with_rules or not each.has_rules:
            changed = keys.filter(pc.match_substring_regex(keys, each.changed.decode()))
            folders.update(filter(None, map(each.find_folder, changed.to_pylist())))
    return folders
