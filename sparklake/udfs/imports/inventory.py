"""The task body reading the files of an inventory as rows."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from urllib.parse import unquote_to_bytes

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.orc as orc
import pyarrow.parquet as pq

from sparklake._scratch import scratch_folder
from sparklake.errors import CorruptFileError
from sparklake.graveler.arrow_batches import with_column
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.rows.objects import unix_microseconds
from sparklake.stores.objects import open_object
from sparklake.stores.objects.local.files import stream_md5
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks

_BATCH_ROWS = 32768


class InventoryFile(msgspec.Struct, frozen=True):
    """One file of an inventory, as listed in its manifest."""

    key: str
    md5: str | None = msgspec.field(name="MD5checksum", default=None)


@dataclass(frozen=True, slots=True)
class InventoryTaskSettings:
    """The task settings of an inventory.

    `source` is the root of the listed keys, `place` of the inventory's files. `names` translates
    columns to `key`, `size`, `last_modified_date`, `e_tag` or `md5`, and to those of other entries:
    `is_latest`, `superseded`, `is_delete_marker` and `is_folder`. `columns` are those of a CSV file
    without a header.
    """

    source: str
    place: str
    file_format: str
    names: Mapping[str, str]
    columns: tuple[str, ...] = ()
    is_form_encoded: bool = False
    folder: str = ""


def read_inventory(settings: InventoryTaskSettings, batches: Batches) -> BatchStream:
    """Yield IMPORT_SCHEMA for InventoryFiles. A mismatch with the manifest is an error."""
    for file in decode_tasks(batches, InventoryFile):
        with scratch_folder() as scratch:
            path = _fetched(settings, file, scratch)
            try:
                for rows in READERS[settings.file_format](path, settings):
                    yield _objects(rows, settings)
            except (pa.ArrowException, KeyError, OSError, ValueError) as error:
                raise CorruptFileError(
                    f"{settings.place}/{file.key} of the inventory does not match its "
                    f"manifest ({error}): use another inventory"
                ) from error


def _fetched(settings: InventoryTaskSettings, file: InventoryFile, scratch: Path) -> Path:
    store, key = open_object(f"{settings.place}/{file.key}")
    path = scratch / f"inventory{''.join(Path(file.key).suffixes[-2:])}"
    store.get_to_file(key, path)
    with path.open("rb") as stream:
        checksum = stream_md5(stream)
    if file.md5 and checksum != file.md5.lower():
        raise CorruptFileError(
            f"{settings.place}/{file.key} does not have the MD5 in the inventory's "
            "manifest: it was overwritten or is damaged; use another inventory"
        )
    return path


def _parquet(path: Path, settings: InventoryTaskSettings) -> BatchStream:
    with pq.ParquetFile(path) as file:
        names = [each for each in file.schema_arrow.names if each in settings.names]
        yield from file.iter_batches(_BATCH_ROWS, columns=names)


def _orc(path: Path, settings: InventoryTaskSettings) -> BatchStream:
    file = orc.ORCFile(path)
    names = [each for each in file.schema.names if each in settings.names]
    for stripe in range(file.nstripes):
        yield file.read_stripe(stripe, columns=names)


def _csv(path: Path, settings: InventoryTaskSettings) -> BatchStream:
    with pa.input_stream(path) as file:
        if not file.read(1):
            return
    with csv.open_csv(
        path,
        csv.ReadOptions(column_names=list(settings.columns)),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=dict.fromkeys(settings.names, pa.string()),
            include_columns=[each for each in settings.columns if each in settings.names],
            strings_can_be_null=True,
            null_values=[""],
        ),
    ) as batches:
        for batch in batches:
            yield _decoded(batch) if settings.is_form_encoded else batch


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode form-encoded keys: "+" is a space. Row checks report text that is not UTF-8."""
    texts = (each.replace("+", " ") for each in batch.column("key").to_pylist())
    keys = pa.array(map(unquote_to_bytes, texts), pa.binary())
    return with_column(batch, "key", keys.view(pa.string()))


READERS = {"parquet": _parquet, "orc": _orc, "csv": _csv}


def _objects(rows: pa.RecordBatch, settings: InventoryTaskSettings) -> pa.RecordBatch:
    """Return the latest versions of objects, without delete or folder markers."""
    pairs = zip(rows.schema.names, rows.columns, strict=True)
    columns = {settings.names[name]: column for name, column in pairs if name in settings.names}
    columns["key"] = columns["key"].cast(pa.binary())
    columns["size"] = columns["size"].cast(pa.int64())
    masks = [pc.starts_with(columns["key"], settings.folder), _is_object(columns)]
    if "is_latest" in columns:
        masks.append(_truth(columns["is_latest"], missing=True))
    if "superseded" in columns:
        masks.append(pc.equal(columns["superseded"].cast(pa.string()).fill_null(""), ""))
    markers = columns.keys() & {"is_delete_marker", "is_folder"}
    masks += [pc.invert(_truth(columns[each], missing=False)) for each in markers]
    return _named(pa.record_batch(columns).filter(reduce(pc.and_, masks)), settings)


def _is_object(columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """Return a mask of objects that are not empty folder markers."""
    empty = pc.equal(columns["size"].fill_null(-1), 0)
    return pc.invert(pc.and_(empty, pc.ends_with(columns["key"], "/")))


def _truth(column: pa.Array, *, missing: bool) -> pa.BooleanArray:
    if not pa.types.is_boolean(column.type):
        column = pc.equal(pc.utf8_lower(column.cast(pa.string())), "true")
    return column.fill_null(missing)


def _named(rows: pa.RecordBatch, settings: InventoryTaskSettings) -> pa.RecordBatch:
    key = rows.column("key")
    columns: Sequence[pa.Array] = [
        _below(key, settings.folder).view(pa.string()),
        rows.column("size"),
        _checksums(rows),
        _mtimes(rows),
        pc.binary_join_element_wise(f"{settings.source}/".encode(), key, b"").view(pa.string()),
    ]
    return pa.record_batch(columns, names=IMPORT_SCHEMA.names[: len(columns)])


def _checksums(rows: pa.RecordBatch) -> pa.Array:
    if "e_tag" in rows.schema.names:
        return pc.utf8_trim(rows.column("e_tag").cast(pa.string()), '"')
    if "md5" not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.string())
    # A composite object has none.
    texts = rows.column("md5").to_pylist()
    return pa.array([b64decode(each).hex() if each else None for each in texts], pa.string())


def _below(keys: pa.BinaryArray, folder: str) -> pa.BinaryArray:
    start = len(folder.encode())
    return pa.array([key[start:] for key in keys.to_pylist()], pa.binary()) if start else keys


def _mtimes(rows: pa.RecordBatch) -> pa.Array:
    kind = IMPORT_SCHEMA.field("mtime").type
    if "last_modified_date" not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    column = rows.column("last_modified_date")
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    if pa.types.is_timestamp(column.type):
        return unix_microseconds(column).cast(kind)
    return column.cast(kind, safe=False)
