"""The compiled kernels: `sparklake._kernels`, built from the crate in `kernels/`.

A kernel is the compiled form of a function that loops over records. The function in Python, with
the decorator `defines`, is its definition: it runs without the crate, and for all input that the
kernel declines, such as damaged bytes. Results and errors are therefore the same everywhere.

Each adapter has the arguments of its definition. The kernels check all bounds, and work without the
interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.buffers import (
    Bytes,
    Ids,
    Mask,
    Positions,
    binary_array,
    data_of,
    offsets_of,
)
from sparklake.graveler.entries import NO_METADATA
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.kernel_choice import CHOICE

if TYPE_CHECKING:
    from pathlib import Path

    from sparklake.graveler.blocks.block import Block
    from sparklake.graveler.blocks.columns import Keys
    from sparklake.graveler.blocks.encoded import EncodedRecords
    from sparklake.graveler.blocks.entry_columns import EntryColumns
    from sparklake.graveler.blocks.packed import PackedBlocks
    from sparklake.graveler.ports import Content
    from sparklake.graveler.sstable.reader import Table

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Declined(Exception):  # noqa: N818  (a request, not a failure)
    """Raised by a compiled kernel to fall back to the definition in Python."""


_library: Any = CHOICE.library
_DECLINED = (Declined, _library.Declined) if _library is not None else (Declined,)


def defines(adapter: Callable[P, R]) -> Callable[[Callable[P, T]], Callable[P, R | T]]:
    """Decorate the definition of the compiled kernel behind `adapter`."""

    def decorated(definition: Callable[P, T]) -> Callable[P, R | T]:
        if _library is None:
            return definition

        @wraps(definition)
        def run(*args: P.args, **kwargs: P.kwargs) -> R | T:
            if CHOICE.is_active:
                try:
                    return adapter(*args, **kwargs)
                except _DECLINED:
                    pass
            return definition(*args, **kwargs)

        return run

    return decorated


# --- columns of bytes -----------------------------------------------------------------------------


def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    digests = _library.sha256_each(*_column(items))
    return binary_array(np.arange(0, len(digests) + 1, RECORD_ID_BYTES), digests)


def gather(data: Bytes, starts: Positions, lengths: Positions) -> pa.BinaryArray:
    return binary_array(*_library.gather(data, _numbers(starts), _numbers(lengths)))


def search(keys: Keys, targets: Keys) -> tuple[Positions, Mask]:
    places: tuple[Positions, Mask] = _library.search(_key_columns(keys), _key_columns(targets))
    return places


def paired(left: Keys, right: Keys) -> tuple[Positions, Positions]:
    rows: tuple[Positions, Positions] = _library.paired(_key_columns(left), _key_columns(right))
    return rows


# --- ids ------------------------------------------------------------------------------------------


def unequal_rows(left: Ids, right: Ids) -> tuple[Positions, Positions]:
    rows: tuple[Positions, Positions] = _library.unequal(_id_bytes(left), _id_bytes(right))
    return rows


def find_ids(ids: Ids, targets: Ids) -> Positions:
    rows: Positions = _library.found_ids(_id_bytes(ids), _id_bytes(targets))
    return rows


def range_ends(ids: Ids, range_records: int) -> list[int]:
    ends: list[int] = _library.range_ends(_id_bytes(ids), range_records).tolist()
    return ends


# --- records --------------------------------------------------------------------------------------


def encode_records(keys: pa.BinaryArray, stored: pa.BinaryArray) -> tuple[pa.BinaryArray, None]:
    return binary_array(*_library.encode_records(*_column(keys), *_column(stored))), None


def entry_lengths(entries: pa.BinaryArray) -> tuple[Positions, Positions]:
    lengths: tuple[Positions, Positions] = _library.shapes(*_column(entries))
    return lengths


def unpack(parts: Sequence[tuple[PackedBlocks, Sequence[int]]], last_ids: Ids) -> pa.BinaryArray:
    return binary_array(*_library.open_blocks(*_stretches(parts), _id_bytes(last_ids)))


def _stretches(
    parts: Sequence[tuple[PackedBlocks, Sequence[int]]],
) -> tuple[list[Bytes], Positions]:
    """Return file slices, and per data block its slice's number and its columns."""
    files: list[Bytes] = []
    places: list[Positions] = []
    for unit, numbers in parts:
        for content, rows in unit.stretches(numbers):
            file = np.full(len(rows), len(files))
            files.append(np.frombuffer(content, np.uint8))
            places.append(np.column_stack((file, rows)))
    return files, _numbers(np.concatenate(places).reshape(-1))


# --- object entries -------------------------------------------------------------------------------


def entry_fields(
    records: EncodedRecords,
) -> tuple[list[pa.BinaryArray], list[Positions], Positions]:
    texts, numbers, odd = _library.decode_entries(*_column(records.entries))
    return [binary_array(*each) for each in texts], numbers, odd


def object_columns(
    block: Block, storage_namespace: str
) -> tuple[list[pa.StringArray], list[Positions], None]:
    return _listed(
        *_library.list_entries(*_column(block.encoded.entries), f"{storage_namespace}/".encode())
    )


def _listed(
    texts: Any, numbers: list[Positions]
) -> tuple[list[pa.StringArray], list[Positions], None]:
    return [_texts(*each) for each in texts], numbers, None


def encode_entries(keys: pa.BinaryArray, entries: EntryColumns) -> pa.BinaryArray:
    texts = (keys, entries.address, entries.checksum, entries.content_type)
    numbers = (entries.size, entries.seconds, entries.nanos)
    return binary_array(
        *_library.encode_entries(
            [_column(each) for each in texts],
            [_numbers(each) for each in numbers],
            np.ascontiguousarray(entries.relative, np.bool_),
            NO_METADATA,
        )
    )


def record_problem(block: Block, encoded: EncodedRecords) -> str:
    _library.verify_records(*_column(encoded.entries), _id_bytes(block.ids), NO_METADATA)
    return ""


def named_objects(
    block: Block, storage_namespace: str
) -> tuple[pa.StringArray, pa.StringArray, Positions, list[Any]]:
    """Return the addresses, checksums, sizes and address hashes of objects."""
    prefix = f"{storage_namespace}/".encode()
    (address, checksum), sizes, hashes = _library.named_objects(
        *_column(block.encoded.entries), prefix
    )
    return _texts(*address), _texts(*checksum), sizes, hashes


# --- tables ---------------------------------------------------------------------------------------

_TAIL_BYTES = 4096  # The bytes at the end of a file that are read first.


def read_directory(file: Content) -> tuple[Ids, Positions, list[bytes], list[bytes], bool]:
    size = len(file)
    start = max(0, size - _TAIL_BYTES)
    ending, start = _library.read_ending(_raw(file[start:size]), size)
    if ending is None:
        ending, _ = _library.read_ending(_raw(file[start:size]), size)
    if ending is None:
        raise Declined
    ids, numbers, keys = ending
    ids, blocks = ids.view(np.uint64).reshape(-1, 4), len(keys) // 2
    return ids, numbers.reshape(-1, blocks), keys[:blocks], keys[blocks:], True


def find_stored(
    content: bytes, size: int, raw_size: int, last_key: bytes, key: bytes
) -> bytes | None:
    stored: bytes | None = _library.find_stored(_raw(content), size, raw_size, last_key, key)
    return stored


def find_each(
    content: bytes, places: Positions, last_keys: Keys, keys: Keys, at: Positions
) -> tuple[pa.BinaryArray, Positions]:
    places = _numbers(places).reshape(-1)
    last_columns, columns = _key_columns(last_keys), _key_columns(keys)
    values, rows = _library.find_each(_raw(content), places, last_columns, columns, at)
    return binary_array(*values), rows


def make_table(
    block: Block, compress: bool, properties: Mapping[bytes, bytes]
) -> tuple[bytes, int, int]:
    tables: dict[int, tuple[int, Table, int, int]] = {}
    encoded: list[tuple[Bytes, Any]] = []
    spans: list[tuple[int, int, int]] = []
    unit: Any
    for unit in block.units:
        if hasattr(unit, "entries"):
            spans.append((-1 - len(encoded), 0, 0))
            encoded.append(_column(unit.entries))
        else:
            table, first, stop = unit.table, unit.first, unit.stop
            number, _, begin, end = tables.get(id(table), (len(tables), table, first, stop))
            tables[id(table)] = (number, table, min(begin, first), max(end, stop))
            spans.append((number, first, stop))
    table_parts: tuple[bytes, int, int] = _library.make_table(
        _id_bytes(block.ids),
        [_source(table, first, stop) for _, table, first, stop in tables.values()],
        encoded,
        np.array(spans, np.int64).reshape(-1),
        compress,
        list(properties.items()),
    )
    return table_parts


def _source(table: Table, first: int, stop: int) -> tuple[Bytes, int, Positions, Bytes]:
    """Return consecutive data blocks, their position, and the table's directory."""
    content, base = table.slice(first, stop)
    directory = table.directory
    keys = b"".join((*directory.first_keys, *directory.last_keys))
    return _raw(content), base, _numbers(directory.numbers).reshape(-1), _raw(keys)


# --- whole tasks ----------------------------------------------------------------------------------

RangeFile: TypeAlias = "tuple[bytes | str, bytes | None, tuple[bytes, bytes] | None]"
"""The bytes of a range's file or its path, the digest of its record ids if unverified, and its
first and last key."""

SIDE_FLAGS = (1, 2, 4, 8)  # Differing keys in a merge: in dest, in source, from source, conflict.


def apply_task(
    base: list[RangeFile], layers: list[list[RangeFile]], *settings: Any
) -> tuple[list[Any], list[bytes] | None, tuple[int, int, int]]:
    """Return the new ranges, the changed keys, and the numbers of changes."""
    ranges, keys, counts = _library.apply_task(base, layers, *settings)
    return ranges, _key_list(keys), counts


def merge_task(
    sides: list[list[RangeFile]], *settings: Any, decided: tuple[Bytes, pa.BinaryArray] | None
) -> tuple[list[Any], list[bytes] | None, tuple[pa.BinaryArray, Bytes], list[Any]]:
    """Return the new ranges, the changed keys, the differing keys, and the conflicts."""
    decisions = decided and (decided[0], *_column(decided[1]))
    ranges, keys, (differing, flags), conflicts = _library.merge_task(sides, *settings, decisions)
    return ranges, _key_list(keys), (binary_array(*differing), flags), conflicts


def diff_task(
    sides: list[list[RangeFile]], scope: Any
) -> tuple[list[pa.BinaryArray], list[Positions]]:
    """Return both sides' differing entries, and each key's rows there."""
    records, rows = _library.diff_task(sides, scope)
    return [binary_array(*each) for each in records], rows


def list_task(
    base: list[RangeFile],
    layers: list[list[RangeFile]],
    scope: Any,
    storage_namespace: str,
    expected: tuple[int, int],
) -> tuple[list[pa.StringArray], list[Positions], None]:
    """Return the objects of layers over a base. `expected` are about their number and bytes."""
    prefix = f"{storage_namespace}/".encode()
    return _listed(*_library.list_task(base, layers, scope, prefix, expected))


def _key_list(keys: tuple[Any, Bytes] | None) -> list[bytes] | None:
    return None if keys is None else binary_array(*keys).to_pylist()


# --- paths and files ------------------------------------------------------------------------------

_MAX_HASHED_BYTES = 1024 * 1024  # A kernel cannot be interrupted.


def plain_keys(texts: pa.StringArray) -> Mask:
    return _plain(texts, "key")


def plain_addresses(addresses: pa.StringArray, storage_namespace: str) -> Mask:
    return _plain(addresses, "address", storage_namespace)


def plain_uris(addresses: pa.StringArray) -> Mask:
    return _plain(addresses, "uri")


def _plain(texts: pa.StringArray, form: str, storage_namespace: str = "") -> Mask:
    plain: Mask = _library.plain_texts(*_column(texts), form, storage_namespace.encode())
    return plain


def file_checksums(paths: pa.StringArray, sizes: Any) -> pa.StringArray:
    digests = _texts(*_library.md5_files(*_column(paths), sizes, _MAX_HASHED_BYTES))
    return pc.if_else(pc.equal(digests, ""), pa.scalar(None, pa.string()), digests)


def open_folder(place: Path, start: str, skipped: str) -> Any:
    """Open a folder. The keys of its files start with `start`."""
    try:
        return _library.Folder(place, start, skipped)
    except (OSError, UnicodeEncodeError):
        raise Declined from None


def read_folder(
    folder: Any, rows: int, others: list[str]
) -> Iterator[tuple[pa.StringArray, Any, Any]]:
    """Yield the keys, sizes and times of plain files; collect all other names."""
    while True:
        names, sizes, mtimes, more = folder.read(rows)
        others += more
        if len(sizes):
            yield _texts(*names), sizes, mtimes
        elif not more:
            return


# --- buffers --------------------------------------------------------------------------------------


def _column(items: Any) -> tuple[Bytes, Any]:
    """Return the bytes and the bounds of a column without nulls."""
    if not isinstance(items, (pa.BinaryArray, pa.StringArray)) or items.null_count:
        raise Declined
    return data_of(items), offsets_of(items)


def _texts(bounds: Any, data: Bytes) -> pa.StringArray:
    """Return texts verified by a kernel."""
    return pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(data))


def _id_bytes(ids: Ids) -> Bytes:
    return np.ascontiguousarray(ids).view(np.uint8).reshape(-1)


def _key_columns(keys: Keys) -> tuple[Bytes, Positions, Positions]:
    return keys.data, _numbers(keys.starts), _numbers(keys.lengths)


def _numbers(values: Any) -> Positions:
    return np.ascontiguousarray(values, np.int64)


def _raw(content: bytes) -> Bytes:
    return np.frombuffer(content, np.uint8)
