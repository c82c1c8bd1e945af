"""Inventories of S3, Azure and Google as a source: their manifests, and the settings for tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sparklake.errors import InvalidInputError, MissingFileError
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.stores.objects import normalise_object_uri, normalise_store_uri, open_object
from sparklake.udfs.imports.inventory import READERS, InventoryFile, InventoryTaskSettings

# The columns of each cloud, by this package's names: those of S3 in Parquet and ORC.
_S3 = ("key", "size", "e_tag", "last_modified_date", "is_latest", "is_delete_marker")
_AZURE = {
    "Name": "key",
    "Content-Length": "size",
    "ETag": "e_tag",
    "Etag": "e_tag",
    "Last-Modified": "last_modified_date",
    "IsCurrentVersion": "is_latest",
    "Snapshot": "superseded",
    "Deleted": "is_delete_marker",
    "hdi_isfolder": "is_folder",
}
# The ETag of Google's JSON API is no checksum.
_GOOGLE = {
    "name": "key",
    "size": "size",
    "md5Hash": "md5",
    "updated": "last_modified_date",
    "timeDeleted": "superseded",
}
# S3's CSV files have the names of Parquet in CamelCase, without "_".
_RENAMED = {each.replace("_", ""): each for each in _S3}


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory of a bucket to import objects from, by the URI of its manifest.

    It is an S3 Inventory, an Azure Blob Inventory or a report of Google's Storage Insights. Only
    keys under the prefix are imported, without the prefix in their paths. A '/' is added to the
    prefix if it has none. Azure's inventories need a prefix that starts with the container.
    """

    manifest: str
    prefix: str = ""

    def __str__(self) -> str:
        return self.manifest

    @property
    def folder(self) -> str:
        """The prefix with a '/' at its end, or "" without a prefix."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix.rstrip("/") else ""


@dataclass(frozen=True, slots=True)
class InventoryManifest:
    """The files of an inventory, and how tasks read them."""

    files: Sequence[InventoryFile]
    settings: InventoryTaskSettings


def read_inventory_manifest(inventory: Inventory) -> InventoryManifest:
    """Read a manifest. An invalid or unsupported one is an error."""
    uri = normalise_object_uri(inventory.manifest)
    store, key = open_object(uri)
    try:
        document = msgspec.json.decode(store.get(key))
        parse = next(parse for field, parse in _PARSERS.items() if field in document)
        manifest = parse(document, uri)
    except MissingFileError as error:
        raise InvalidInputError(f"{uri} does not exist: pass a manifest.json") from error
    except (*BAD_JSON, AttributeError, KeyError, StopIteration, TypeError) as error:
        raise InvalidInputError(
            f"{uri} is not the manifest of an inventory ({error!r}): use that of an S3 Inventory, "
            "an Azure Blob Inventory or a Storage Insights report"
        ) from error
    settings = manifest.settings
    if settings.file_format not in READERS:
        raise InvalidInputError(
            f"{uri} lists files in {settings.file_format}: only Parquet, ORC and CSV are supported"
        )
    if settings.names is _AZURE and not inventory.folder:
        raise InvalidInputError(
            f"the inventory of {uri} may list several containers: choose one with a prefix that "
            "starts with its name"
        )
    return replace(manifest, settings=replace(settings, folder=inventory.folder))


def _parse_s3(document: Any, uri: str) -> InventoryManifest:
    schema = document["fileSchema"]
    _check_columns(uri, re.findall(r"\w+", schema.lower()), "key", "size")
    # In a CSV file, the names are separated by commas.
    columns = [each.strip() for each in schema.split(",")]
    settings = InventoryTaskSettings(
        source=f"s3://{document['sourceBucket']}",
        # The bucket may be an ARN.
        place=f"s3://{document['destinationBucket'].rpartition(':')[2]}",
        file_format=document["fileFormat"].lower(),
        names=dict(zip(_S3, _S3, strict=True)),
        columns=tuple(_RENAMED.get(each.lower(), each) for each in columns),
        is_form_encoded=True,
    )
    return InventoryManifest(msgspec.convert(document["files"], list[InventoryFile]), settings)


def _parse_azure(document: Any, uri: str) -> InventoryManifest:
    rule, endpoint = document["ruleDefinition"], document["endpoint"].rstrip("/")
    if document["status"] != "Succeeded" or rule["objectType"] != "blob":
        raise InvalidInputError(
            f"{uri} is an inventory of {rule['objectType']}s with the status "
            f"{document['status']}: use a complete inventory of blobs"
        )
    _check_columns(uri, rule["schemaFields"], "Name", "Content-Length")
    settings = InventoryTaskSettings(
        source=endpoint,
        place=normalise_store_uri(f"{endpoint}/{document['destinationContainer']}"),
        file_format=rule["format"].lower(),
        names=_AZURE,
    )
    return InventoryManifest([InventoryFile(each["blob"]) for each in document["files"]], settings)


def _parse_google(document: Any, uri: str) -> InventoryManifest:
    options = document["report_config"]["object_metadata_report_options"]
    _check_columns(uri, options["metadata_fields"], "name", "size")
    names = [each.rpartition("/")[2] for each in document["report_shards_file_names"]]
    settings = InventoryTaskSettings(
        source=f"gs://{options['storage_filters']['bucket']}",
        place=uri.rpartition("/")[0],
        file_format=" and ".join(sorted({each.rpartition(".")[2] for each in names})) or "csv",
        names=_GOOGLE,
    )
    return InventoryManifest([InventoryFile(each) for each in names], settings)


# By a field that only this kind of manifest has.
_PARSERS = {
    "sourceBucket": _parse_s3,
    "ruleDefinition": _parse_azure,
    "report_config": _parse_google,
}


def _check_columns(uri: str, columns: Sequence[str], key: str, size: str) -> None:
    if not {key, size} <= set(columns):
        raise InvalidInputError(
            f"the inventory of {uri} needs a column for keys and one for sizes, but has "
            f"{', '.join(columns)[:200]!r}: add the optional field {size}"
        )
