"""Avro container files, with a check of each size before it is trusted.

fastavro decodes the records of a block. It trusts counts and schemas, so a block is decompressed
to a limit, and only schemas are accepted whose records cannot be larger in memory than in bytes.
A file is rewritten with the schema that it has, so fields that are unknown here are kept.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import BAD_JSON

ById: TypeAlias = Mapping[int, Any]
"""A record by field id. Nested records are such mappings, too; maps are dictionaries."""

MAX_BYTES = 512 * 1024 * 1024
"""The maximum size of one decompressed file."""

_MAGIC, _SYNC_BYTES = b"Obj\x01", 16
_MAX_DEPTH, _MAX_FIELDS, _MAX_FIXED = 12, 10_000, 1024
_MAX_VARINT_BITS = 63
_PRIMITIVES = {
    **dict.fromkeys(("boolean", "int", "long", "bytes", "string"), 1),
    "null": 0,
    "float": 4,
    "double": 8,
}
"""The minimum size of each type."""

_BAD_RECORD = (
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    StopIteration,
    TypeError,
    ValueError,
    struct.error,
)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._body)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._body) - self._at:
            raise CorruptFileError("an Avro file is truncated")
        self._at += size
        return bytes(self._body[self._at - size : self._at])

    def number(self) -> int:
        value = 0
        for shift in range(0, _MAX_VARINT_BITS + 1, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise CorruptFileError("an Avro file has a number of more than 64 bits")

    def header(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        while count := self.number():
            if count < 0:
                count = -count
                self.number()
            for _ in range(count):
                name = self.take(self.number()).decode(errors="replace")
                entries[name] = self.take(self.number())
        return entries


@dataclass(frozen=True, slots=True)
class AvroFile:
    """A container file: its header, the schema by field id, and the encoded records."""

    header: Mapping[str, bytes]
    schema: Mapping[str, Any]
    body: _Reader
    sync: bytes

    @staticmethod
    def of(body: bytes) -> AvroFile:
        """Open a file.

        Raises:
            CorruptFileError: The bytes are no Avro file, or it has unusual types.
        """
        reader = _Reader(body)
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise CorruptFileError("the file is not an Avro file")
        header = reader.header()
        sync = reader.take(_SYNC_BYTES)
        return AvroFile(header, _checked_schema(header.get("avro.schema", b"")), reader, sync)

    def records(self) -> Iterator[ById]:
        """Decode the records. They can be read once."""
        from fastavro import schemaless_reader

        schema = _parsed(self.schema)
        reader, remaining = self.body, MAX_BYTES
        while not reader.is_at_end:
            count = reader.number()
            data = _decompressed(
                reader.take(reader.number()), self.header.get("avro.codec", b"null"), remaining
            )
            remaining -= len(data)
            if reader.take(_SYNC_BYTES) != self.sync or not 0 <= count <= len(data):
                raise CorruptFileError("an Avro file has a damaged block")
            block = io.BytesIO(data)
            for _ in range(count):
                try:
                    record = schemaless_reader(block, schema, None)
                except _BAD_RECORD as error:
                    raise CorruptFileError(f"an Avro file has a damaged record: {error}") from error
                yield _by_id(self.schema, record)
            if block.tell() != len(data):
                raise CorruptFileError("an Avro file has a block with trailing bytes")

    def with_field(self, name: str, number: int, kind: str, record: int | None = None) -> AvroFile:
        """Return the file with another field, for new records only. A field `long?` is optional.

        A `record` is the nested one that has the field.
        """
        schema = msgspec.json.decode(self.header["avro.schema"])
        column: dict[str, Any] = {"name": name, "type": kind, "field-id": number}
        if kind.endswith("?"):
            column |= {"type": ["null", kind[:-1]], "default": None}
        nested = (each["type"] for each in schema["fields"] if each.get("field-id") == record)
        (schema if record is None else next(nested))["fields"].append(column)
        text = msgspec.json.encode(schema)
        header = {**self.header, "avro.schema": text}
        return AvroFile(header, _checked_schema(text), self.body, self.sync)

    def with_records(
        self, records: Iterable[ById], header: Mapping[str, str] | None = None
    ) -> bytes:
        """Return a file of the same schema with other records, and some header entries replaced.

        Equal records give equal bytes.
        """
        from fastavro import schemaless_writer

        schema, block = _parsed(self.schema), io.BytesIO()
        rows = [_by_name(self.schema, each) for each in records]
        for each in rows:
            schemaless_writer(block, schema, each)
        deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        data = deflater.compress(block.getvalue()) + deflater.flush()
        entries = {name: text.encode() for name, text in (header or {}).items()}
        entries = {**self.header, **entries, "avro.codec": b"deflate"}
        head = _MAGIC + _number(len(entries))
        for name, value in entries.items():
            head += _sized(name.encode()) + _sized(value)
        head += _number(0)
        sync = hashlib.sha256(head + data).digest()[:_SYNC_BYTES]
        return head + sync + (_number(len(rows)) + _sized(data) + sync if rows else b"")


def _number(value: int) -> bytes:
    value, result = (value << 1) ^ (value >> 63), b""
    while value > 0x7F:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _parsed(schema: Mapping[str, Any]) -> Any:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException

    try:
        return parse_schema(schema)  # type: ignore[arg-type]
    except (*_BAD_RECORD, AttributeError, SchemaParseException) as error:
        raise CorruptFileError(f"an Avro file has an invalid schema: {error}") from error


def _decompressed(data: bytes, codec: bytes, limit: int) -> bytes:
    try:
        if codec == b"null":
            result = data
        elif codec == b"deflate":
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            result = inflater.decompress(data, limit + 1)
            if not inflater.eof and len(result) <= limit:
                raise CorruptFileError("an Avro file has a truncated block")
        elif codec == b"zstandard":
            result = pa.input_stream(pa.BufferReader(data), compression="zstd").read(limit + 1)
        else:
            raise CorruptFileError(
                f"an Avro file has the unsupported codec {codec[:20].decode(errors='replace')!r}: "
                "rewrite the manifests with write.avro.compression-codec=gzip"
            )
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise CorruptFileError(f"an Avro file has a damaged block: {error}") from error
    if len(result) > limit:
        raise CorruptFileError(f"an Avro file has more than {MAX_BYTES:,} bytes")
    return result


# --- schemas --------------------------------------------------------------------------------------


def _checked_schema(text: bytes) -> dict[str, Any]:
    """Return a record's schema without logical types, so that values stay as stored."""
    try:
        schema = _Cleaner().clean(msgspec.json.decode(text), 0)
    except (*BAD_JSON, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"an Avro file has an invalid schema: {error}") from error
    if not (isinstance(schema, dict) and schema["type"] == "record" and _min_bytes(schema)):
        raise CorruptFileError("an Avro file does not contain records")
    return schema


class _Cleaner:
    def __init__(self) -> None:
        self._fixed: dict[str, int] = {}
        self._fields = 0

    def clean(self, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH or self._fields > _MAX_FIELDS:
            raise CorruptFileError("an Avro file has a schema that is too large")
        if isinstance(schema, list):
            return [self.clean(each, depth + 1) for each in schema]
        if isinstance(schema, str):
            return self._named(schema)
        kind = schema["type"]
        if kind == "record":
            self._fields += 1
            name = f"r{self._fields}"
            fields = [self._field(each, depth) for each in schema["fields"]]
            return {"type": "record", "name": name, "fields": fields}
        if kind == "array":
            return self._array(self.clean(schema["items"], depth + 1))
        if kind == "map":
            return {"type": "map", "values": self.clean(schema["values"], depth + 1)}
        if kind == "fixed":
            size, name = schema["size"], schema["name"]
            if not (isinstance(size, int) and 0 < size <= _MAX_FIXED):
                raise CorruptFileError("an Avro file has a field of an invalid size")
            self._fixed[name] = size
            return self._named(name)
        return self.clean(kind, depth + 1)

    def _field(self, field: Mapping[str, Any], depth: int) -> dict[str, Any]:
        self._fields += 1
        number = field.get("field-id")
        return {
            "name": f"f{self._fields}",
            "id": number if isinstance(number, int) else -self._fields,
            "type": self.clean(field["type"], depth + 1),
        }

    def _named(self, name: str) -> Any:
        if name in self._fixed:
            # A name of its own for each use, because a schema may contain a name once.
            self._fields += 1
            return {"type": "fixed", "name": f"x{self._fields}", "size": self._fixed[name]}
        if name not in _PRIMITIVES:
            raise CorruptFileError(f"an Avro file has the unsupported type {name[:100]!r}")
        return name

    @staticmethod
    def _array(items: Any) -> dict[str, Any]:
        if not _min_bytes(items):
            raise CorruptFileError("an Avro file has an array of items without bytes")
        return {"type": "array", "items": items}


def _min_bytes(schema: Any) -> int:
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    if isinstance(schema, list) or schema["type"] in ("array", "map"):
        return 1
    if schema["type"] == "fixed":
        return int(schema["size"])
    return sum(_min_bytes(each["type"]) for each in schema["fields"])


def _by_id(schema: Any, value: Any) -> Any:
    """Replace field names with ids, and pairs of an array with a dictionary."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return value if value is None or len(kinds) != 1 else _by_id(kinds[0], value)
    if isinstance(schema, str) or value is None:
        return value
    if schema["type"] == "record":
        return {each["id"]: _by_id(each["type"], value[each["name"]]) for each in schema["fields"]}
    if schema["type"] == "array":
        items = schema["items"]
        if isinstance(items, dict) and items["type"] == "record":
            rows = [list(_by_id(items, each).values()) for each in value]
            pairs = len(items["fields"]) == 2
            return dict(rows) if pairs and all(isinstance(row[0], int) for row in rows) else rows
        return value
    return value


def _by_name(schema: Any, value: Any) -> Any:
    """Return a value for fastavro: the inverse of `_by_id`."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        return value if value is None or len(kinds) != 1 else _by_name(kinds[0], value)
    if isinstance(schema, str) or value is None:
        return value
    if schema["type"] == "record":
        fields = schema["fields"]
        if len({each["id"] for each in fields}) < len(fields):
            raise CorruptFileError("an Avro file has a schema that repeats field ids")
        return {each["name"]: _by_name(each["type"], value[each["id"]]) for each in fields}
    items = schema["items"] if schema["type"] == "array" else None
    if isinstance(items, dict) and items["type"] == "record":
        rows = value.items() if isinstance(value, dict) else value
        names = [each["name"] for each in items["fields"]]
        kinds = [each["type"] for each in items["fields"]]
        return [dict(zip(names, map(_by_name, kinds, row), strict=True)) for row in rows]
    return value
