"""S3 Inventory as a source: its manifest, and the settings for tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from sparklake.errors import InvalidInputError, MissingFileError
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.stores.objects import normalise_object_uri, open_object
from sparklake.udfs.imports.inventory import (
    COLUMN_NAMES,
    READERS,
    InventoryFile,
    InventoryTaskSettings,
)

# A CSV has the names of Parquet in CamelCase, without "_".
_RENAMED = {each.replace("_", ""): each for each in COLUMN_NAMES}


@dataclass(frozen=True, slots=True)
class S3Inventory:
    """An S3 Inventory to import objects from, by the URI of its manifest.json.

    Only keys under the prefix are imported, without the prefix in their paths. A '/' is added to
    the prefix if it has none.
    """

    manifest: str
    prefix: str = ""

    def __str__(self) -> str:
        return self.manifest

    @property
    def folder(self) -> str:
        """The prefix with a '/' at its end, or "" without a prefix."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix.rstrip("/") else ""


class InventoryManifest(msgspec.Struct, frozen=True, rename="camel"):
    """The required fields of an inventory's manifest.json."""

    source_bucket: str
    destination_bucket: str
    file_format: str
    file_schema: str
    files: tuple[InventoryFile, ...]

    @property
    def place(self) -> str:
        """The bucket of the inventory's files, also from an ARN."""
        return self.destination_bucket.rpartition(":")[2]

    @property
    def columns(self) -> list[str]:
        """The column names of a CSV file, spelled as in Parquet."""
        names = (each.strip() for each in self.file_schema.split(","))
        return [_RENAMED.get(each.lower(), each) for each in names]


def read_inventory_manifest(inventory: S3Inventory) -> InventoryManifest:
    """Read a manifest. An invalid or unsupported one is an error."""
    uri = normalise_object_uri(inventory.manifest)
    store, key = open_object(uri)
    try:
        manifest = msgspec.json.decode(store.get(key), type=InventoryManifest)
    except MissingFileError as error:
        raise InvalidInputError(f"{uri} does not exist: pass a manifest.json") from error
    except BAD_JSON as error:
        raise InvalidInputError(
            f"{uri} is not the manifest of an S3 Inventory ({error}): use its manifest.json"
        ) from error
    if manifest.file_format.lower() not in READERS:
        raise InvalidInputError(
            f"{uri} lists files in {manifest.file_format}: only Parquet, ORC and CSV are supported"
        )
    words = re.findall(r"\w+", manifest.file_schema.lower())
    if not {"key", "size"} <= set(words):
        raise InvalidInputError(
            f"the inventory of {uri} needs a column for keys and one for sizes, but has "
            f"{manifest.file_schema[:200]!r}: add the optional field Size"
        )
    return manifest


def inventory_terms(manifest: InventoryManifest, folder: str) -> InventoryTaskSettings:
    return InventoryTaskSettings(
        manifest.source_bucket,
        manifest.place,
        manifest.file_format.lower(),
        tuple(manifest.columns),
        folder,
    )
