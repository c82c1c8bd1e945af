"""Parquet files are read from Arrow's own memory, so that a process can exit during a read."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

import sparklake
from sparklake.graveler.parquet_files import decode_parquet, native_reader

_READS = re.compile(r"(ParquetFile|read_table)\((io\.)?BytesIO")


def test_a_reader_does_not_reference_the_bytes() -> None:
    body = b"x" * 1000
    before = sys.getrefcount(body)
    reader = native_reader(body)
    assert sys.getrefcount(body) == before
    assert reader.read() == body


def test_columns_are_read_in_the_given_order() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    file = io.BytesIO()
    parquet.write_table(table, file)
    assert decode_parquet(file.getvalue(), "a list") == table
    assert decode_parquet(file.getvalue(), "a list", ["b", "a"]) == table.select(["b", "a"])


def test_no_parquet_file_is_read_from_a_python_object() -> None:
    root = Path(sparklake.__file__).parent
    assert not [each for each in root.rglob("*.py") if _READS.search(each.read_text())]
