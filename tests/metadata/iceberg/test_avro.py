"""Avro files of fastavro are read, and hostile bytes are errors that take no memory."""

from __future__ import annotations

import io
import json
import random
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sparklake.errors import CorruptFileError
from sparklake.metadata.iceberg import avro
from sparklake.metadata.iceberg.avro import AvroFile
from tests.support.cases import for_each
from tests.support.iceberg import field, manifest

SYNC = b"s" * 16


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def container(schema: Any, count: int, data: bytes, codec: bytes = b"null") -> bytes:
    entries = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    head = b"".join(number(len(part)) + part for each in entries.items() for part in each)
    body = number(count) + number(len(data)) + data + SYNC
    return b"Obj\x01" + number(2) + head + number(0) + SYNC + body


def record(*kinds: Any) -> dict[str, Any]:
    fields = [field(f"f{at}", at, each) for at, each in enumerate(kinds, 1)]
    return {"type": "record", "name": "r", "fields": fields}


def compressed(schema: Any, rows: list[Any], codec: str) -> bytes:
    """Return an Avro file; zstd is done here, as fastavro needs a package for it."""
    body = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
    data = body.getvalue()
    if codec == "deflate":
        data = zlib.compress(data)[2:-4]
    elif codec == "zstandard":
        data = pa.compress(data, codec="zstd", asbytes=True)
    return container(schema, len(rows), data, codec.encode())


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_records_are_read_by_field_id(codec: str) -> None:
    decimal = {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 9}
    pair = {
        "type": "record",
        "name": "p",
        "fields": [field("key", 8, "int"), field("value", 9, "bytes")],
    }
    day = {"type": "int", "logicalType": "date"}
    inner = {**record(day, ["null", decimal], ["null", "d"]), "name": "inner"}
    schema = record(
        "long", inner, {"type": "array", "items": pair}, {"type": "map", "values": "int"}
    )
    raw = {
        "f1": 7,
        "f2": {"f1": 3, "f2": None, "f3": None},
        "f3": [{"key": 1, "value": b"x"}],
        "f4": {},
    }
    records = list(AvroFile.of(compressed(schema, [raw] * 500, codec)).records())
    assert records == [{1: 7, 2: {1: 3, 2: None, 3: None}, 3: {1: b"x"}, 4: {}}] * 500


@for_each(
    ("body", "message"),
    [
        (b"PAR1", "not an Avro file"),
        (b"Obj\x01\xff", "truncated"),
        (b"Obj\x01" + b"\xff" * 20, "64 bits"),
        (container(record({"type": "array", "items": "null"}), 1, number(2**60)), "without bytes"),
        (container(record("null"), 2**40, b""), "does not contain records"),
        (container(record("long"), 2**40, b"\x02"), "damaged block"),
        (container(record("long"), -1, b"\x02"), "damaged block"),
        (container(record("long"), 1, b"\x02\x02"), "trailing"),
        (container(record("string"), 1, number(2**60) + b"x"), "damaged record"),
        (container(record("string"), 1, number(-5) + b"x"), "damaged record"),
        (container(record({"type": "array", "items": "long"}), 1, number(2**60)), "damaged record"),
        (container(record({"type": "fixed", "name": "x", "size": 2**40}), 1, b"x"), "invalid size"),
        (container(record("r"), 1, b"x"), "unsupported type 'r'"),
        (container(record("long"), 1, b"\x02", b"snappy"), "unsupported codec 'snappy'"),
        (container(record("long"), 1, b"\x02", b"deflate"), "damaged block"),
        (container(["null", "long"], 1, b"\x02"), "does not contain records"),
        (container({"type": "record", "name": "r"}, 1, b"\x02"), "invalid schema"),
        (container(3, 1, b"\x02"), "invalid schema"),
    ],
)
def test_a_hostile_file_is_corrupt(body: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        list(AvroFile.of(body).records())


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_the_decompressed_size_of_a_block_is_limited(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro, "MAX_BYTES", 1000)
    body = compressed(record("string"), [{"f1": "x" * 100_000}], codec)
    with pytest.raises(CorruptFileError, match="more than 1,000 bytes"):
        list(AvroFile.of(body).records())


def test_a_deeply_nested_schema_is_rejected() -> None:
    kind: Any = "long"
    for _ in range(100):
        kind = {"type": "array", "items": kind}
    with pytest.raises(CorruptFileError, match="too large"):
        list(AvroFile.of(container(record(kind), 1, b"x")).records())


def test_random_damage_is_an_error_or_gives_records() -> None:
    chance = random.Random(1)
    whole = (
        manifest(3, [], "null") + b"",
        manifest(2, [FILE] * 3, "null"),
        manifest(2, [FILE], "deflate"),
    )
    errors = 0
    for _ in range(1500):
        body = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 3)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            stop = chance.choice([len(body), chance.randrange(len(body))])
            list(AvroFile.of(bytes(body[:stop])).records())
        except CorruptFileError:
            errors += 1
    assert errors > 500


FILE = {
    "file_path": "file:/t/data/a.parquet",
    "file_format": "PARQUET",
    "partition": {},
    "record_count": 3,
    "file_size_in_bytes": 99,
    "content": 0,
    "lower_bounds": [{"key": 1, "value": b"\x01\0\0\0\0\0\0\0"}],
    "upper_bounds": [{"key": 1, "value": b"\x03\0\0\0\0\0\0\0"}],
    "null_value_counts": [{"key": 1, "value": 0}],
}
