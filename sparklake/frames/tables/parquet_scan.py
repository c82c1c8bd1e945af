"""Scans of a table's Parquet files in tasks of a Python data source, without Spark's reader."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError
from sparklake.frames.tables.parquet_views import nullable, reader_features
from sparklake.frames.tables.row_values import is_wider
from sparklake.metadata.delta.vectors import decode_vector
from sparklake.stores.objects import open_object
from sparklake.stores.objects.content_file import ContentReader

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_TIMES = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FORMAT = ds.ParquetFileFormat(
    read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True),
)
_BATCH_ROWS = 64 * 1024
SLICE_BYTES = 128 * 1024 * 1024
"""The size of a slice of a file, and of the files of a task."""

INSTEAD = "read it with lake.read or repo.read, which use Spark's own reader"

_PARTITION_VALUES: Mapping[str, Any] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    "string": str,
    "date": date.fromisoformat,
    "boolean": lambda text: text == "true",
}
"""Conversions of the texts in partition folders. Other types depend on the session."""


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A slice of a data file: the row groups with their middle in `start` to `stop`.

    `partition` has the texts of the partition columns. `vector` describes the deleted rows, and
    `vector_address` is its file, if it has one.
    """

    path: str
    address: str
    size: int
    partition: Mapping[str, str | None]
    start: int = 0
    stop: int = 0
    vector: Mapping[str, Any] | None = None
    vector_address: str = ""

    def slices(self) -> Iterator[ScanFile]:
        for start in range(0, max(self.size, 1), SLICE_BYTES):
            yield replace(self, start=start, stop=min(start + SLICE_BYTES, self.size))


@dataclass(frozen=True, slots=True)
class Scan:
    """A table to read: all its columns, those of its folders among them, and its files."""

    schema: types.StructType
    partition_columns: Sequence[str]
    files: Sequence[ScanFile]


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects from a Python data source."""
    # Before Spark 4.2, UTC is the only time zone.
    convert: Any = to_arrow_schema
    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    arrow: pa.Schema = convert(schema, timezone="UTC") if has_zone else convert(schema)
    return arrow


# --- schemas --------------------------------------------------------------------------------------


def stored_schema(file: ScanFile) -> types.StructType:
    """Return the columns of a file, as Spark reads them."""
    with _opened(file) as fragment:
        return _schema_of(file, fragment)


def check_types(schema: types.StructType, what: str) -> None:
    if reader_features(schema) is None:
        raise InvalidInputError(
            f"{what} has repeated column names, or types that the format lakefs does not support: "
            f"{schema.simpleString()}. Instead, {INSTEAD}"
        )


def _schema_of(file: ScanFile, fragment: ds.ParquetFileFragment) -> types.StructType:
    labels, arrow = fragment.metadata.metadata or {}, fragment.physical_schema
    if "[ns" in str(arrow):
        raise InvalidInputError(
            f"{file.path!r} has timestamps in nanoseconds, which Spark cannot read: write them "
            "with to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
        )
    is_old = labels.get(_SPARK_VERSION, b"").startswith(b"2.")
    has_times = "date" in str(arrow) or "timestamp" in str(arrow)
    if has_times and (is_old or any(name in labels for name in _LEGACY_TIMES)):
        raise InvalidInputError(f"{file.path!r} has dates in the calendar of Spark 2: {INSTEAD}")
    if _SPARK_SCHEMA in labels:
        return nullable(types.StructType.fromJson(json.loads(labels[_SPARK_SCHEMA])))
    columns = [fragment.metadata.schema.column(at) for at in range(fragment.metadata.num_columns)]
    instants = {each.path.split(".")[0] for each in columns if each.physical_type == "INT96"}
    try:
        fields = [
            types.StructField(each.name, from_arrow_type(each.type, each.name not in instants))
            for each in arrow
        ]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{file.path!r}: {error}. Instead, {INSTEAD}") from error
    return nullable(types.StructType(fields))


# --- rows -----------------------------------------------------------------------------------------


def partition_values(file: ScanFile, schema: types.StructType) -> dict[str, Any]:
    """Convert the texts of a file's partition to the types of the schema."""
    kinds = {each.name: each.dataType.typeName() for each in schema.fields}
    return {
        name: None if text is None else _PARTITION_VALUES[kinds[name]](text)
        for name, text in file.partition.items()
        if name in kinds
    }


def checked(scan: Scan, what: str) -> Scan:
    """Return a scan of supported types. Others are rejected before anything is read."""
    check_types(scan.schema, what)
    for each in scan.schema.fields:
        is_folder = each.name in scan.partition_columns
        if is_folder and each.dataType.typeName() not in _PARTITION_VALUES:
            raise InvalidInputError(
                f"{what} has the partition column {each.name!r} of type "
                f"{each.dataType.simpleString()}, whose text depends on the session: {INSTEAD}"
            )
    return scan


def scan_rows(file: ScanFile, schema: types.StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice of a file, with the given columns."""
    arrow, values = arrow_schema(schema), partition_values(file, schema)
    with _opened(file) as fragment:
        names = _stored_names(file, schema, _schema_of(file, fragment))
        groups, first_row = _row_groups(file, fragment)
        if not groups:
            return
        batches = fragment.subset(row_group_ids=groups).to_batches(
            columns=list(dict.fromkeys(names.values())), batch_size=_BATCH_ROWS, use_threads=False
        )
        for batch in _live(file, batches, first_row):
            yield _with_schema(batch, arrow, names, values)


def _stored_names(
    file: ScanFile, schema: types.StructType, stored: types.StructType
) -> dict[str, str]:
    """Return the names in a file by the names of columns; a missing column has none."""
    check_types(stored, repr(file.path))
    by_name = {each.name.lower(): each for each in stored.fields}
    names = {}
    for each in schema.fields:
        own = by_name.get(each.name.lower())
        if own is None or each.name in file.partition:
            continue
        is_nested = "<" in each.dataType.simpleString()
        widens = not is_nested and is_wider(each.dataType, own.dataType)
        if not widens and nullable(types.StructType([own])).fields[0].dataType != each.dataType:
            raise InvalidInputError(
                f"the column {each.name!r} of {file.path!r} is {own.dataType.simpleString()}, not "
                f"{each.dataType.simpleString()}: {INSTEAD}"
            )
        names[each.name] = own.name
    return names


def _row_groups(file: ScanFile, fragment: ds.ParquetFileFragment) -> tuple[list[int], int]:
    """Return the row groups of a slice, and the number of rows before them."""
    groups, first_row, row = list[int](), 0, 0
    for at in range(fragment.metadata.num_row_groups):
        group = fragment.metadata.row_group(at)
        columns = [group.column(each) for each in range(group.num_columns)]
        starts = [each.dictionary_page_offset or each.data_page_offset for each in columns]
        middle = min(starts, default=0) + sum(each.total_compressed_size for each in columns) // 2
        if file.start <= middle < file.stop and group.num_rows:
            first_row = first_row if groups else row
            groups.append(at)
        row += group.num_rows
    return groups, first_row


def _live(
    file: ScanFile, batches: Iterator[pa.RecordBatch], first_row: int
) -> Iterator[pa.RecordBatch]:
    if file.vector is None:
        yield from batches
        return
    body = None
    if file.vector_address:
        store, key = open_object(file.vector_address)
        body = store.get(key)
    gaps = decode_vector(file.vector, body)
    for batch in batches:
        rows = np.arange(first_row, first_row + batch.num_rows)
        first_row += batch.num_rows
        yield batch.filter(pa.array(~np.isin(rows, gaps)))


def _with_schema(
    batch: pa.RecordBatch, arrow: pa.Schema, names: Mapping[str, str], values: Mapping[str, Any]
) -> pa.RecordBatch:
    columns = []
    for each in arrow:
        if each.name in names:
            columns.append(batch.column(names[each.name]).cast(each.type))
        else:
            value = pa.scalar(values.get(each.name), each.type)
            columns.append(pa.repeat(value, batch.num_rows))
    return pa.record_batch(columns, schema=arrow)


# --- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _StoredBytes:
    file: ScanFile

    def __len__(self) -> int:
        return self.file.size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self.file.size)
        if start >= stop:
            return b""
        store, key = open_object(self.file.address)
        read = store.get_part(key, start, stop)
        if read.size != self.file.size:
            raise CorruptFileError(
                f"{self.file.path!r} has {read.size} bytes at {self.file.address}, not "
                f"{self.file.size}: it was overwritten outside the lake; restore the original"
            )
        return read.body


@contextmanager
def _opened(file: ScanFile) -> Iterator[ds.ParquetFileFragment]:
    reader = io.BufferedReader(ContentReader(_StoredBytes(file), file.path))
    try:
        with pa.PythonFile(reader, "r") as source:
            fragment = _FORMAT.make_fragment(source)
            fragment.ensure_complete_metadata()
            yield fragment
    except MissingFileError as error:
        raise MissingFileError(
            f"{file.path!r} is missing from {file.address}: it was moved or deleted outside the "
            "lake; restore it there"
        ) from error
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{file.path!r} is not readable as Parquet ({error}): the format lakefs reads only "
            "Parquet and Delta tables. Read others with lake.read.format(...)"
        ) from error
