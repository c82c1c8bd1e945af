"""Writes to Iceberg tables: commits to a copy of the metadata, then staged."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake.errors import InvalidInputError
from sparklake.layout import DATA_FOLDER
from sparklake.metadata.iceberg.documents import Document, encode_document
from sparklake.metadata.iceberg.edits import edited, identity_columns
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, next_metadata
from sparklake.session import configure_iceberg
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.iceberg.table_copy import (
    BaseMetadata,
    copied_document,
    copy_metadata,
    new_names,
)
from sparklake.verbs.iceberg.tree_table import describing, find_metadata
from sparklake.verbs.tables.edits import EditLocation, TableCopy
from sparklake.verbs.tables.spark_writer import check_native
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import begun, named_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ICEBERG = "iceberg"

_TABLE_PROPERTY = re.compile(r"(write|read|commit|history)\.|format-version$")
"""Options that are properties of a new table. Others are for the writer."""


class IcebergEdit(EditLocation):
    """A table copy's name in SQL, in a `catalog` of the session."""

    __slots__ = ("catalog",)

    catalog: str


@dataclass(frozen=True, slots=True)
class _Copy(TableCopy):
    metadata = "Iceberg metadata"
    table: TableVersion
    base: BaseMetadata | None
    catalog: str

    @property
    def sql_name(self) -> str:
        return f"{self.catalog}.`{self.write.id}`"

    def edit_location(self) -> IcebergEdit:
        name = IcebergEdit(self.sql_name)
        name.catalog = self.catalog
        return name

    def save(self, rows: DataFrame) -> None:
        from pyspark.sql.functions import col, lit

        properties, options = dict[str, str](), dict[str, str]()
        for name, value in self.request.options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            (properties if _TABLE_PROPERTY.match(name) else options)[name] = text
        writer = rows.writeTo(self.sql_name).options(**options)
        columns = self.request.partition_by
        if self.base is None:
            writer = writer.using(ICEBERG)
            for name, value in properties.items():
                writer = writer.tableProperty(name, value)
            if columns:
                writer = writer.partitionedBy(*(col(f"`{each}`") for each in columns))
            writer.create()
            return
        _check_fits(self.request, properties, self.base.document)
        if self.request.mode is WriteMode.APPEND:
            writer.append()
        elif self.request.mode is WriteMode.OVERWRITE:
            writer.overwrite(lit(True))
        else:
            writer.overwritePartitions()

    def stage(self) -> TableWrite:
        context, request, write = self.context, self.request, self.write
        base = self.base
        with describing(self.table, "was not changed"):
            document = copied_document(context, write.place, is_new=self.is_new)
            if document is None:
                return TableWrite(request.path)
            names = new_names(context, write, None if base is None else base.iceberg, document)
        body = encode_document(
            {**document, "metadata-log": []}
            if base is None
            else edited(document, base.document, base.address)
        )
        name = next_metadata(None if base is None else base.name, str(uuid.uuid4()))
        row = self.put(name, body)
        column = pa.array(sorted(names), pa.string())
        with named_files(context, request.branch, write.place, column, "Iceberg") as files:
            return self.land(
                files, lambda table: _named(self, table, {f"{METADATA_FOLDER}{name}": row})
            )


@contextmanager
def iceberg_copy(context: Context, request: WriteRequest, table: TableVersion) -> Iterator[_Copy]:
    check_namespace(context.store)
    check_native(context)
    catalog = session_catalog(context)
    with begun(context, request.branch) as write:
        # An append does not read existing files.
        all_files = request.mode is not WriteMode.APPEND
        base = copy_metadata(context, table, write, all_files=all_files)
        if base is not None:
            catalog = session_catalog(context, base.location)
        yield _Copy(
            context=context,
            request=request,
            write=write,
            is_new=base is None,
            table=table,
            base=base,
            catalog=catalog,
        )


def session_catalog(context: Context, location: str = "") -> str:
    """Configure the catalog of writes to the namespace in the session; return its name.

    There is one for each spelling of the bucket in the locations of tables.
    """
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import check_iceberg

    spark, namespace = context.runners.session(), context.info.storage_namespace
    warehouse = spark_uri(f"{namespace}/{DATA_FOLDER}", location)
    catalog = f"sparklake_{sha256(warehouse.encode()).hexdigest()[:8]}"
    configure_iceberg(spark, catalog, {"type": "hadoop", "warehouse": warehouse})
    check_iceberg(spark, catalog)
    return catalog


def _check_fits(request: WriteRequest, properties: Iterable[str], document: Document) -> None:
    names = ", ".join(sorted(properties))
    if names:
        raise InvalidInputError(
            f"the options {names} are properties of new tables, and {request.path!r} exists: set "
            "them with ALTER TABLE in edit_iceberg"
        )
    columns = identity_columns(document)
    if request.partition_by and list(request.partition_by) != columns:
        how = f"by {', '.join(columns)}" if columns else "by no column's values"
        raise InvalidInputError(
            f"{request.folder!r} is partitioned {how} on {request.branch!r}: write to it with "
            "the same partition_by, or without"
        )


def _named(
    copy: _Copy, table: TableVersion, rows: Mapping[str, pa.RecordBatch]
) -> Mapping[str, pa.RecordBatch]:
    with describing(table):
        info = find_metadata(table)
    if copy.base is None:
        if info is not None and copy.request.mode is not WriteMode.OVERWRITE:
            raise copy.changed()
    elif info != copy.base.info:
        raise copy.changed()
    return rows
