"""All Parquet column types, in every storage form of pyarrow, with Spark's names."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

_INSTANT = datetime(2024, 1, 1, 12, 0, 0, 1000, timezone.utc)
_MOMENT = _INSTANT.replace(tzinfo=None)
_DECIMALS = [Decimal("1.25"), Decimal("-9.50")]


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type as a file stores it, and Spark's name of it; `alone` if Spark reads such a file."""

    kind: pa.DataType
    spark: str
    values: list[Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = True

    def file(self) -> bytes:
        """Return a file with the type as a column, and in a list, a struct and a map."""
        plain = pa.array(self.values, getattr(self.kind, "storage_type", self.kind))
        if isinstance(self.kind, pa.BaseExtensionType):
            plain = pa.ExtensionArray.from_storage(self.kind, plain)
        offsets = pa.array(range(len(plain) + 1), pa.int32())
        keys = pa.array(["k"] * len(plain))
        columns = {
            "v": plain,
            "l": pa.ListArray.from_arrays(offsets, plain),
            "s": pa.StructArray.from_arrays([plain], ["x"]),
            "m": pa.MapArray.from_arrays(offsets, keys, plain),
        }
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink, store_schema=False, **self.options)
        return sink.getvalue()


def _uuid(number: int) -> bytes:
    return UUID(int=number).bytes


STORED_TYPES = {
    "BOOLEAN": StoredType(pa.bool_(), "boolean", [True, False]),
    "INT(8)": StoredType(pa.int8(), "tinyint", [1, -128]),
    "INT(16)": StoredType(pa.int16(), "smallint", [1, -(1 << 15)]),
    "UINT(8)": StoredType(pa.uint8(), "smallint", [1, 255]),
    "INT(32)": StoredType(pa.int32(), "int", [1, -(1 << 31)]),
    "UINT(16)": StoredType(pa.uint16(), "int", [1, 65_535]),
    "INT(64)": StoredType(pa.int64(), "bigint", [1, -(1 << 63)]),
    "UINT(32)": StoredType(pa.uint32(), "bigint", [1, (1 << 32) - 1], {"version": "2.6"}),
    "INT64 of a duration": StoredType(
        pa.duration("us"), "bigint", [timedelta(seconds=1), timedelta(-1)]
    ),
    "UINT(64), always (20,0)": StoredType(pa.uint64(), "decimal(20,0)", [1, (1 << 64) - 1]),
    "DECIMAL(20,0)": StoredType(pa.decimal128(20, 0), "decimal(20,0)", [Decimal(1), Decimal(-2)]),
    "FLOAT16": StoredType(pa.float16(), "float16", [1.5, -2.0], alone=False),
    "FLOAT": StoredType(pa.float32(), "float", [1.5, -0.25]),
    "DOUBLE": StoredType(pa.float64(), "double", [1.5, 1e300]),
    "DECIMAL(9,2), INT32": StoredType(
        pa.decimal128(9, 2), "decimal(9,2)", _DECIMALS, {"store_decimal_as_integer": True}
    ),
    "DECIMAL(9,2), FIXED": StoredType(pa.decimal128(9, 2), "decimal(9,2)", _DECIMALS),
    "DECIMAL(18,2), INT64": StoredType(
        pa.decimal128(18, 2), "decimal(18,2)", _DECIMALS, {"store_decimal_as_integer": True}
    ),
    "DECIMAL(18,2), FIXED": StoredType(pa.decimal128(18, 2), "decimal(18,2)", _DECIMALS),
    "DECIMAL(38,2)": StoredType(pa.decimal128(38, 2), "decimal(38,2)", _DECIMALS),
    "DECIMAL(50,2)": StoredType(pa.decimal256(50, 2), "decimal(50,2)", _DECIMALS, alone=False),
    "STRING": StoredType(pa.string(), "string", ["a", "é"]),
    "STRING in a dictionary": StoredType(pa.large_string(), "string", ["a", "a"]),
    "JSON": StoredType(pa.json_(), "string", ["{}", "[1]"]),
    "BYTE_ARRAY": StoredType(pa.binary(), "binary", [b"a", b"\xff"]),
    "FIXED_LEN_BYTE_ARRAY": StoredType(pa.binary(2), "binary", [b"ab", b"\xff\x00"]),
    "UUID": StoredType(pa.uuid(), "uuid", [_uuid(1), _uuid(2)], alone=False),
    "DATE": StoredType(pa.date32(), "date", [date(2024, 2, 29), date(1969, 12, 31)]),
    "TIME(MILLIS)": StoredType(pa.time32("ms"), "time in milliseconds", [1, 2], alone=False),
    "TIME(MICROS)": StoredType(pa.time64("us"), "time", [1, 2], alone=False),
    "TIME(NANOS)": StoredType(pa.time64("ns"), "time in nanoseconds", [1, 2], alone=False),
    "TIMESTAMP(MILLIS, UTC)": StoredType(pa.timestamp("ms", "UTC"), "timestamp", [_INSTANT]),
    "TIMESTAMP(MICROS, UTC)": StoredType(
        pa.timestamp("us", "Europe/Berlin"), "timestamp", [_INSTANT]
    ),
    "INT96": StoredType(
        pa.timestamp("us"), "timestamp", [_MOMENT], {"use_deprecated_int96_timestamps": True}
    ),
    "TIMESTAMP(MILLIS)": StoredType(pa.timestamp("ms"), "timestamp_ntz", [_MOMENT]),
    "TIMESTAMP(MICROS)": StoredType(pa.timestamp("us"), "timestamp_ntz", [_MOMENT]),
    "TIMESTAMP(NANOS, UTC)": StoredType(
        pa.timestamp("ns", "UTC"), "timestamp in nanoseconds", [1, 2], alone=False
    ),
    "TIMESTAMP(NANOS)": StoredType(
        pa.timestamp("ns"), "timestamp in nanoseconds", [1, 2], alone=False
    ),
    "UNKNOWN (null)": StoredType(pa.null(), "void", [None, None], alone=False),
}
"""The types by their names in Parquet."""
