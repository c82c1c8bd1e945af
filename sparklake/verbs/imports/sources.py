"""Sources of an import: a listing, an inventory, or rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from sparklake.engine.base import Runner, Source, Work
from sparklake.engine.choice import THREAD_RECORDS
from sparklake.errors import InvalidInputError, InvalidKeyError, InvalidRowsError
from sparklake.graveler.chunks import chunked
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.stores.objects import normalise_object_uri, open_object, open_store
from sparklake.stores.objects.listings import split_listing
from sparklake.udfs.imports.inventory import read_inventory
from sparklake.udfs.imports.row_checks import Read
from sparklake.udfs.imports.source_listing import read_listing
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, given_place
from sparklake.verbs.base.staging import rows_by_path
from sparklake.verbs.iceberg.import_source import find_table, names_table
from sparklake.verbs.imports.inventory import Inventory, read_inventory_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    ImportSource: TypeAlias = str | Path | Inventory | pa.Table | pa.RecordBatchReader | DataFrame

_REQUIRED = {"path", "size", "address"}
_MAX_TASKS = 1024


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A checked source: the input of the tasks, its reader, and its rows, None on Spark.

    `place` is the URI above the addresses of all objects, if they have such a place.
    """

    name: str
    rows: Source
    read: Read
    records: int | None = 0
    place: str | None = None
    is_table: bool = False
    """Whether it is an Iceberg table, whose folder must contain no other metadata."""

    def runner(self, context: Context, branch: str) -> Runner:
        if self.records is None:
            return context.runners.on_spark(context.title("import", branch))
        return context.runner(self.records, "import", branch)


def one_source(
    place: str | None, inventory: str | None, inventory_prefix: str | None
) -> str | Inventory:
    """Return the only source of the options. None or several are an error."""
    if (place is None) == (inventory is None):
        raise InvalidInputError("choose one source: --from, --inventory or --rows")
    if inventory is not None:
        return Inventory(inventory, inventory_prefix or "")
    if inventory_prefix is not None:
        raise InvalidInputError("--inventory-prefix needs --inventory")
    return place or ""


def source_name(source: ImportSource) -> str:
    if isinstance(source, str | Path):
        return str(source)
    return f"the inventory {source}" if isinstance(source, Inventory) else "rows"


def find_object(source: ImportSource) -> tuple[str, int, str] | None:
    """Return the name, size and address of a source that is one object, with nothing below it."""
    if not isinstance(source, str | Path) or names_table(str(source)):
        return None
    store, key = open_object(str(source))
    if not key or key.endswith("/"):
        return None
    # Reads of the source as a prefix report an invalid key.
    with given_place(), suppress(InvalidKeyError):
        # A listing needs no other permission than that of a prefix.
        near = [store.find(key)] if store.traits.is_local else [*islice(store.list(key), 1)]
        info = next((each for each in near if each is not None and each.key == key), None)
        if info is None or any(True for _ in islice(store.list(f"{key}/"), 1)):
            return None
        return key.rpartition("/")[2], info.size, normalise_object_uri(str(source))
    return None


def open_source(context: Context, source: ImportSource) -> OpenSource:
    """Check a source. A listing is split into parts, which reads folders."""
    name = source_name(source)
    if isinstance(source, str | Path):
        table = find_table(context, str(source))
        if table is not None:
            place, rows = table
            return OpenSource(name, rows, iter, rows.num_rows, place, is_table=True)
    if isinstance(source, str | Path):
        root = check_apart(context.info, str(source))
        with given_place(root):
            parts = split_listing(open_store(root))
        size = -(-len(parts) // _MAX_TASKS) or 1
        work = Work(encode_tasks(chunked(parts, size)))
        return OpenSource(root, work, partial(read_listing, root), place=root)
    if isinstance(source, Inventory):
        with given_place():
            manifest = read_inventory_manifest(source)
        read = partial(read_inventory, manifest.settings)
        place = f"{manifest.settings.source}/{source.folder}".rstrip("/")
        return OpenSource(name, Work(encode_tasks(manifest.files)), read, place=place)
    if isinstance(source, pa.Table | pa.RecordBatchReader):
        _check_columns(source.schema.names)
        if isinstance(source, pa.Table):
            return OpenSource(name, source, iter, source.num_rows)
        count, batches = _started(source)
        return OpenSource(name, batches, iter, count)
    columns = getattr(source, "columns", None)
    if columns is None or not hasattr(source, "mapInArrow"):
        raise InvalidInputError(
            f"{type(source).__name__} cannot be imported: use a path or URI, an Inventory, "
            "an Arrow table or reader, or a Spark DataFrame"
        )
    _check_columns(columns)
    return OpenSource(name, rows_by_path(source), iter, None)


def _started(stream: pa.RecordBatchReader) -> tuple[int, Iterator[pa.RecordBatch]]:
    """Return the number of rows up to about THREAD_RECORDS, and all batches."""
    first, count = list[pa.RecordBatch](), 0
    for batch in stream:
        first.append(batch)
        count += batch.num_rows
        if count >= THREAD_RECORDS:
            break
    return min(count, THREAD_RECORDS), chain(first, stream)


def _check_columns(names: list[str]) -> None:
    columns, allowed = set(names), set(IMPORT_SCHEMA.names)
    if len(columns) < len(names) or not _REQUIRED <= columns <= allowed:
        raise InvalidRowsError(
            f"the columns {sorted(names)} cannot be imported: {sorted(_REQUIRED)} are required and "
            f"{sorted(allowed - _REQUIRED)} allowed, each once; select and rename them"
        )
