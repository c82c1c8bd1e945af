"""Checkpoints of every kind: classic, multi-part, and V2 in Parquet or JSON, with sidecars."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklake.errors import CorruptFileError
from sparklake.graveler.parquet_files import native_reader
from sparklake.metadata.delta.actions import (
    Action,
    Fields,
    decode_actions,
    encode_actions,
    fields_of,
)
from sparklake.metadata.delta.paths import name_of
from sparklake.metadata.delta.rewrite import Rewrite, rewritten_batch, rewritten_columns

Part: TypeAlias = "pa.Table | Sequence[Action]"
"""The actions of one file of a checkpoint, in Parquet or JSON."""

ReadFile = Callable[[str], bytes]
"""A function from a name below the log folder to the file's content."""

SIDECARS = "_sidecars/"
_SIDECAR = "sidecar"
_ROWS = 50_000
"""The number of rows in a batch, and in a row group. Readers spread row groups over cores."""


def checkpoint_parts(names: Sequence[str], read: ReadFile, *columns: str) -> Iterator[Part]:
    """Yield the actions of a checkpoint's files, each followed by its sidecars.

    `columns` restricts those in Parquet. Without `sidecar` among them, sidecars are not read.
    """
    for name in names:
        part = _decoded(name, read(name), columns)
        yield part
        if _SIDECAR in columns:
            for fields in fields_in(part, _SIDECAR):
                sidecar = _sidecar_name(fields)
                yield _decoded(sidecar, read(sidecar), columns)


def fields_in(part: Part, kind: str) -> Iterator[Fields]:
    """Convert a checkpoint's actions to those of a commit."""
    if not isinstance(part, pa.Table):
        yield from fields_of(part, kind)
    elif kind in part.column_names:
        rows = part[kind].combine_chunks().drop_null()
        yield from (_plain(each.as_py(), rows.type) for each in rows)


def adds_in(part: Part, names: Collection[str] | None) -> Iterator[Fields]:
    """Yield a checkpoint's `add` fields for live files, by default all."""
    if isinstance(part, pa.Table) and names is not None and "add" in part.column_names:
        adds = part["add"].combine_chunks().drop_null()
        paths = pc.struct_field(adds, "path").to_pylist()
        chosen = pa.array((name_of(each) in names for each in paths), pa.bool_())
        part = pa.table({"add": adds.filter(chosen)})
    for fields in fields_in(part, "add"):
        if names is None or name_of(fields["path"]) in names:
            yield {name: value for name, value in fields.items() if not name.endswith("_parsed")}


def rewritten_checkpoint(
    names: Sequence[str], read: ReadFile, folder: Path, rewrite: Rewrite, log: str
) -> dict[str, Path]:
    """Rewrite a checkpoint's files into a folder, each in its own form.

    Return the files by name, with the referenced sidecars. Errors contain `log`.
    """
    written: dict[str, Path] = {}

    def write(name: str, columns: Rewrite) -> int:
        path = written[name] = folder / str(len(written))
        body = read(name)
        if name.endswith(".json"):
            actions = decode_actions(body, f"{name} in {log}")
            columns([*fields_of(actions, _SIDECAR)])
            rewrite([*fields_of(actions, "add", "remove")])
            path.write_bytes(encode_actions(actions))
        else:
            with _reading(f"{name} in {log}"):
                file = _opened(body)
            with pq.ParquetWriter(path, file.schema_arrow) as writer:
                for batch in _batches(f"{name} in {log}", file):
                    sized = rewritten_columns(batch, _SIDECAR, ("path", "sizeInBytes"), columns)
                    writer.write_batch(rewritten_batch(sized, rewrite))
        return path.stat().st_size

    def write_sidecars(files: Sequence[dict[str, Any]]) -> None:
        for fields in files:
            name = _sidecar_name(fields)
            fields["path"] = fields["path"].rpartition("/")[2]
            # Readers open a sidecar by this size.
            fields["sizeInBytes"] = write(name, _no_sidecars)

    for each in names:
        write(each, write_sidecars)
    return written


def _no_sidecars(files: Sequence[dict[str, Any]]) -> None:
    if files:
        raise CorruptFileError("a sidecar of a checkpoint of a Delta log has sidecars")


def _sidecar_name(fields: Fields) -> str:
    return SIDECARS + name_of(fields["path"].rpartition("/")[2])


def _decoded(name: str, body: bytes, columns: Sequence[str]) -> Part:
    if name.endswith(".json"):
        return decode_actions(body, name)
    with _reading(name):
        return _opened(body).read(columns=[*columns])


def _opened(body: bytes) -> pq.ParquetFile:
    # Spark reads no nanoseconds, the default for INT96 in parsed statistics.
    return pq.ParquetFile(native_reader(body), coerce_int96_timestamp_unit="us")


def _batches(name: str, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    with _reading(name):
        yield from file.iter_batches(_ROWS)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(f"the checkpoint file {name} is not Parquet: {error}") from error


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Convert a Parquet value to the log's JSON form: maps as objects, nulls omitted."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        fields = ((each.name, _plain(value[each.name], each.type)) for each in kind)
        return {name: each for name, each in fields if each is not None}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(each, kind.value_type) for each in value]
    return value
