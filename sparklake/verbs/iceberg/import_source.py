"""Existing Iceberg tables as rows to import."""

from __future__ import annotations

import re

import pyarrow as pa

from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError
from sparklake.extras import missing_extras
from sparklake.graveler.ports import ObjectStore
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, Location
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.stores.objects import normalise_object_uri, open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart

CATALOG = "catalog:"
"""The start of a source that names a table in a catalog of the Spark session."""

_METADATA_FILE = re.compile(r"(?s).*\.metadata\.json(\.gz)?")
_COLUMNS = pa.schema([IMPORT_SCHEMA.field(each) for each in ("path", "size", "address")])


def names_table(source: str) -> bool:
    return source.startswith(CATALOG) or _METADATA_FILE.fullmatch(source) is not None


def find_table(context: Context, source: str) -> tuple[str, pa.Table] | None:
    """Return the location of a table, and its files as rows to import; None for other sources.

    The table is a metadata.json, or `catalog:NAME` in the session. Files of older snapshots are
    included, and older metadata files and unreferenced files are not.
    """
    if not names_table(source):
        return None
    place = source
    if source.startswith(CATALOG):
        place = _metadata_of(context, source.removeprefix(CATALOG))
    try:
        with missing_extras():
            return _rows(context, place)
    except (CorruptFileError, InvalidInputError) as error:
        raise type(error)(f"the Iceberg table {source!r} cannot be imported: {error}") from error


def _metadata_of(context: Context, name: str) -> str:
    spark = context.runners.session()
    try:
        entries = spark.table(f"{name}.metadata_log_entries").select("file").collect()
    except Exception as error:
        raise InvalidInputError(
            f"{name!r} is not an Iceberg table of the Spark session: {str(error).splitlines()[0]}"
        ) from error
    return str(entries[-1]["file"])


def _rows(context: Context, place: str) -> tuple[str, pa.Table]:
    # Lazy import: most imports have other sources.
    from sparklake.metadata.iceberg.documents import decode_document
    from sparklake.metadata.iceberg.references import references

    folder, _, name = normalise_object_uri(place).rpartition("/")
    body = open_store(folder).get(name)
    document = decode_document(body)
    root = check_apart(context.info, document["location"])
    location, store = Location(root), open_store(root)
    sizes = dict[str, int | None]()
    files = references(document, lambda path: store.get(location.relative(path)), lambda _: True)
    for path, size in files:
        sizes[location.relative(path)] = size
    size_of = {path: _size(store, path) if size is None else size for path, size in sizes.items()}
    # The current metadata is looked up in this folder.
    columns = [
        [*size_of, f"{METADATA_FOLDER}{name}"],
        [*size_of.values(), len(body)],
        [*(f"{root}/{each}" for each in size_of), f"{folder}/{name}"],
    ]
    return root, pa.table(columns, schema=_COLUMNS)


def _size(store: ObjectStore, key: str) -> int:
    info = store.find(key)
    if info is None:
        raise MissingFileError(f"{store.uri}/{key} is missing: the metadata references it")
    return info.size
