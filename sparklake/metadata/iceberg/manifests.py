"""Manifest lists and manifests of the format versions 1 to 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.metadata.iceberg.avro import AvroFile, ById

T = TypeVar("T")
_REQUIRED: Any = object()
_EXISTING, _ADDED, _DELETED = 0, 1, 2
_DELETES_MANIFEST = 1
_PATH_COLUMN, _SPLITS = 2147483546, 132


class Content(IntEnum):
    """What the rows of a file are."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """An entry of a manifest list. `length` is unknown in tables without manifest lists."""

    path: str
    length: int | None = None
    spec_id: int = 0
    has_deletes: bool = False
    sequence_number: int = 0


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live data or delete file. Bounds are serialized values by field id.

    A deletion vector is a slice of a Puffin file: `offset` and `length`.
    """

    content: Content
    path: str
    format: str
    spec_id: int
    partition: Sequence[Any]
    sequence_number: int
    records: int
    size: int
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]
    nulls: Mapping[int, int]
    target: str | None = None
    offset: int | None = None
    length: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.content is Content.POSITION_DELETES and self.format == "puffin"


def manifests_in(body: bytes) -> Iterator[Manifest]:
    return map(parse_manifest, AvroFile.of(body).records())


def parse_manifest(fields: ById) -> Manifest:
    _check_plain(fields, 519)
    return Manifest(
        path=_value(fields, 500, str),
        length=_count(fields, 501),
        spec_id=_value(fields, 502, int, 0),
        has_deletes=_value(fields, 517, int, 0) == _DELETES_MANIFEST,
        sequence_number=_count(fields, 515, 0),
    )


def live_files(body: bytes, manifest: Manifest) -> Iterator[TableFile]:
    """Parse a manifest, without its deleted entries."""
    for each in AvroFile.of(body).records():
        if each.get(0) != _DELETED:
            yield parse_entry(each, manifest)


def parse_entry(fields: ById, manifest: Manifest) -> TableFile:
    """Parse a live entry of a manifest."""
    status = _value(fields, 0, int)
    if status not in (_EXISTING, _ADDED):
        raise CorruptFileError(f"a manifest has an entry with the status {status}")
    default = manifest.sequence_number if status == _ADDED else 0
    return _table_file(_value(fields, 2, dict), manifest, _count(fields, 3, default))


def moved_list(body: bytes, manifests: Mapping[str, tuple[str, int]]) -> bytes:
    """Return a manifest list with other manifests: each path, and its new path and length."""
    file = AvroFile.of(body)
    places = (({**each}, *manifests[_value(each, 500, str)]) for each in file.records())
    return file.with_records({**each, 500: path, 501: length} for each, path, length in places)


@dataclass(frozen=True, slots=True)
class MovedDeletes:
    """A position delete file with other paths in its rows. The bounds are those of the paths."""

    path: str
    size: int
    lower: bytes
    upper: bytes


def moved_manifest(
    body: bytes, place: Callable[[str], str], move_deletes: Callable[[str], MovedDeletes]
) -> bytes:
    """Return a manifest with the path of each file replaced.

    The rows of position deletes contain paths, so `move_deletes` writes these files again.

    Raises:
        InvalidInputError: It has position deletes in another format than Parquet.
    """
    file = AvroFile.of(body)
    return file.with_records(_moved_entry(each, place, move_deletes) for each in file.records())


def _moved_entry(
    entry: ById, place: Callable[[str], str], move_deletes: Callable[[str], MovedDeletes]
) -> ById:
    fields = _value(entry, 2, dict)
    path, target = _value(fields, 100, str), _value(fields, 143, str, None)
    moved = {**fields, 100: place(path)}
    if target is not None:
        moved[143] = place(target)
    content, kind = _value(fields, 134, int, 0), _value(fields, 101, str).lower()
    is_live = _value(entry, 0, int) != _DELETED
    if is_live and content == Content.POSITION_DELETES and kind != "puffin":
        if kind != "parquet":
            raise InvalidInputError(
                f"it has position deletes of the format {kind!r} ({path}), whose rows contain "
                "paths of files: write the rows to a new table, and export that"
            )
        deletes = move_deletes(path)
        moved |= {100: deletes.path, 104: deletes.size}
        for number, bound in ((125, deletes.lower), (128, deletes.upper)):
            if _PATH_COLUMN in (moved.get(number) or ()):
                moved[number] = {**moved[number], _PATH_COLUMN: bound}
        if _SPLITS in moved:
            moved[_SPLITS] = None
    return {**entry, 2: moved}


def _table_file(fields: ById, manifest: Manifest, sequence_number: int) -> TableFile:
    _check_plain(fields, 131)
    content = _value(fields, 134, int, int(Content.DATA))
    if content not in set(Content) or (content != Content.DATA) != manifest.has_deletes:
        raise CorruptFileError(f"a manifest has a file of the content {content}")
    offset, length = _value(fields, 144, int, None), _value(fields, 145, int, None)
    return TableFile(
        content=Content(content),
        path=_value(fields, 100, str),
        format=_value(fields, 101, str).lower(),
        spec_id=manifest.spec_id,
        partition=tuple(_value(fields, 102, dict, {}).values()),
        sequence_number=sequence_number,
        records=_count(fields, 103),
        size=_count(fields, 104),
        lower=_by_column(fields, 125, bytes),
        upper=_by_column(fields, 128, bytes),
        nulls=_by_column(fields, 110, int),
        target=_value(fields, 143, str, None),
        offset=offset,
        length=length,
    )


def _check_plain(fields: ById, key_metadata: int) -> None:
    if fields.get(key_metadata) is not None:
        raise InvalidInputError("it is encrypted, which sparklake does not support")


def _value(fields: ById, number: int, kind: type[T], default: Any = _REQUIRED) -> Any:
    value = fields.get(number)
    if value is None and default is not _REQUIRED:
        return default
    if not isinstance(value, kind):
        raise CorruptFileError(f"a manifest has no valid field {number}: {str(value)[:100]!r}")
    return value


def _count(fields: ById, number: int, default: Any = _REQUIRED) -> int:
    value: int = _value(fields, number, int, default)
    if not 0 <= value < 1 << 63:
        raise CorruptFileError(f"a manifest has a negative field {number}: {value}")
    return value


def _by_column(fields: ById, number: int, kind: type[T]) -> Mapping[int, T]:
    # An empty array of pairs is a list.
    pairs = fields.get(number) or {}
    if not isinstance(pairs, dict) or not all(isinstance(each, kind) for each in pairs.values()):
        raise CorruptFileError(f"a manifest has no valid field {number}")
    return pairs
