"""The runner of this process, and its sort."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.engine.local import LocalRunner, sort_records
from sparklake.graveler.records import Record
from sparklake.udfs.objects import record_batch
from sparklake.udfs.writing import RECORD_SCHEMA
from tests.support.folders import memory_folder

rows = st.lists(
    st.tuples(st.binary(min_size=1, max_size=3), st.binary(max_size=8)),
    unique_by=lambda row: row[0],
)
batch_sizes = st.integers(1, 7)


def batches_of(records: list[Record], size: int) -> list[pa.RecordBatch]:
    return [record_batch(records[at : at + size]) for at in range(0, len(records), size)]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Record]:
    return [
        (row["key"], row["stored"])
        for batch in batches
        for row in batch.cast(RECORD_SCHEMA).to_pylist()
    ]


@given(rows, batch_sizes, st.sampled_from([1, 60, 1_000_000]))
def test_records_are_sorted_by_key_as_bytes(
    records: list[Record], size: int, sort_bytes: int
) -> None:
    with memory_folder() as scratch:
        found = rows_of(sort_records(batches_of(records, size), scratch, sort_bytes))
    assert found == sorted(records)


def test_what_is_large_is_spilled(tmp_path: Path) -> None:
    records = [(b"%05d" % (number * 7919 % 20_000), b"x" * 20) for number in range(20_000)]
    batches = batches_of(records, 1000)
    in_memory = rows_of(sort_records(batches, tmp_path))
    assert list(tmp_path.iterdir()) == []
    spilled = rows_of(sort_records(batches, tmp_path, sort_bytes=100_000))
    assert len(list(tmp_path.iterdir())) > 2
    assert spilled == in_memory == sorted(records)


@pytest.mark.parametrize("sort_bytes", [1, 1_000_000])
def test_a_key_that_is_there_twice_stays_there_twice(sort_bytes: int, tmp_path: Path) -> None:
    """The body that writes the run refuses it, naming the key."""
    batches = [record_batch([(b"a", b"1"), (b"b", b"1")]), record_batch([(b"a", b"2")])]
    found = rows_of(sort_records(batches, tmp_path, sort_bytes))
    assert sorted(found) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")]
    assert [key for key, _ in found] == [b"a", b"a", b"b"]


@pytest.mark.parametrize("sort_bytes", [1, 1_000_000])
def test_no_record_is_no_record(sort_bytes: int, tmp_path: Path) -> None:
    assert rows_of(sort_records([], tmp_path, sort_bytes)) == []
    assert rows_of(sort_records([record_batch([])], tmp_path, sort_bytes)) == []


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        yield batch


WORK = pa.table({"position": [0, 1, 2]})


def test_bodies_run_over_rows_of_work() -> None:
    runner = LocalRunner()
    assert [batch.to_pydict() for batch in runner.collect(doubled, WORK)] == [
        {"position": [0, 1, 2]}
    ] * 2
    assert list(runner.stream(doubled, WORK)) == runner.collect(doubled, WORK)


def test_no_work_runs_no_body() -> None:
    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise AssertionError("it ran")

    assert LocalRunner().collect(body, WORK.slice(0, 0)) == []
    assert list(LocalRunner().stream(body, WORK.slice(0, 0))) == []


def test_a_stream_runs_as_it_is_asked() -> None:
    started = []

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started.append(True)
        yield from batches

    stream = LocalRunner().stream(body, WORK)
    assert started == []
    next(stream)
    assert started == [True]


@pytest.mark.parametrize("as_table", [True, False])
def test_rows_are_a_table_or_batches(as_table: bool) -> None:
    batches = [record_batch([(b"b", b"")]), record_batch([(b"a", b"")])]
    given_rows = pa.Table.from_batches(batches) if as_table else iter(batches)
    found = LocalRunner().sort_and_collect(iter, lambda each: each, given_rows)
    assert [key for key, _ in rows_of(iter(found))] == [b"a", b"b"]
