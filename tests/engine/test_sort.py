"""The sort of runs: sorted input stays as it is, and large input is sorted in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.engine import sort as sorting
from sparklake.engine.sort import (
    SortedFile,
    key_shares,
    records_in_order,
    sort_to_files,
    source_batches,
)
from sparklake.graveler.chunks import sliced
from sparklake.graveler.records import Record
from sparklake.rows.records import RECORD_SCHEMA, record_batch
from sparklake.testing.folders import memory_folder

rows = st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.binary(max_size=8)), max_size=80)
unique_rows = st.lists(
    st.tuples(st.binary(min_size=1, max_size=3), st.binary(max_size=8)),
    unique_by=lambda row: row[0],
)
sizes = st.sampled_from([1, 60, 200, 1_000_000])


def batches_of(records: list[Record], size: int) -> list[pa.RecordBatch]:
    return [record_batch(records[at : at + size]) for at in range(0, len(records), size)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Record]:
    return [
        (row["key"], row["stored"])
        for batch in batches
        for row in batch.cast(RECORD_SCHEMA).to_pylist()
    ]


def sorted_shares(files: list[SortedFile], share_bytes: int) -> list[list[Record]]:
    return [rows_of(records_in_order(share)) for share in key_shares(files, share_bytes)]


@given(unique_rows, st.integers(1, 7), sizes, sizes, st.sampled_from([1, 50, 1_000_000]))
def test_records_are_sorted_by_the_bytes_of_their_keys(
    records: list[Record], size: int, sort_bytes: int, share_bytes: int, batch_bytes: int
) -> None:
    with memory_folder() as scratch, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorting, "_BATCH_BYTES", batch_bytes)
        patched.setattr(sorting, "_SAMPLE_BYTES", batch_bytes)
        files = sort_to_files(iter, scratch, batches_of(records, size), sort_bytes)
        shares = sorted_shares(files, share_bytes)
    assert [row for share in shares for row in share] == sorted(records)
    assert all(shares), "a share without a record"


@given(rows, st.integers(1, 7), sizes, sizes)
def test_records_with_equal_keys_are_in_one_share(
    records: list[Record], size: int, sort_bytes: int, share_bytes: int
) -> None:
    with memory_folder() as scratch:
        files = sort_to_files(iter, scratch, batches_of(records, size), sort_bytes)
        shares = sorted_shares(files, share_bytes)
    flat = [row for share in shares for row in share]
    assert sorted(flat) == sorted(records)
    assert [key for key, _ in flat] == sorted(key for key, _ in records)
    keys = [{key for key, _ in share} for share in shares]
    assert sum(map(len, keys)) == len(set().union(*keys)), "a key is in two shares"


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many records were sorted together after they had been sorted in their files."""
    sizes: list[int] = []
    sort = sorting._sorted

    def noting(table: pa.Table) -> pa.Table:
        sizes.append(table.num_rows)
        return sort(table)

    monkeypatch.setattr(sorting, "_sorted", noting)
    return sizes


def test_disjoint_slices_are_not_merged(tmp_path: Path, merged: list[int]) -> None:
    records = [(b"%05d" % number, b"x" * 20) for number in range(10_000)]
    batches = batches_of(records, 1000)
    # Slices in any order: each holds keys that no other has between its own.
    files = sort_to_files(iter, tmp_path, [batches[at * 7 % 10] for at in range(10)], 20_000)
    assert len(files) > 5
    merged.clear()
    shares = sorted_shares(files, 50_000)
    assert len(shares) > 3
    assert [row for share in shares for row in share] == records
    assert merged == []


def test_only_overlapping_slices_are_merged(tmp_path: Path, merged: list[int]) -> None:
    low = [(b"a%05d" % number, b"x" * 20) for number in range(2000)]
    odd = [(b"b%05d" % number, b"x" * 20) for number in range(1, 100, 2)]
    even = [(b"b%05d" % number, b"x" * 20) for number in range(0, 100, 2)]
    files = [sort_to_files(iter, tmp_path, batches_of(each, 500))[0] for each in (odd, low, even)]
    merged.clear()
    assert sorted_shares(files, 1_000_000) == [sorted(low + odd + even)]
    assert merged == [100]


def test_a_sort_stays_within_its_memory_limit(tmp_path: Path, merged: list[int]) -> None:
    records = [(b"%05d" % (number * 7919 % 20_000), b"x" * 20) for number in range(20_000)]
    file_counts: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(records, 100):
            file_counts.append(len(list(tmp_path.iterdir())))
            yield batch

    files = sort_to_files(iter, tmp_path, source(), 100_000)
    assert file_counts == sorted(file_counts)
    assert len(set(file_counts)) == len(files) > 5, "files are written while the source is read"
    assert max(merged) < 4000
    merged.clear()
    assert [row for share in sorted_shares(files, 100_000) for row in share] == sorted(records)
    assert len(merged) > 2
    assert max(merged) < 20_000


def test_one_key_with_many_records_is_streamed(tmp_path: Path, merged: list[int]) -> None:
    """A column with one value must fail because of its key, not for lack of memory."""
    records = [(b"m", b"x" * 20)] * 5000
    files = sort_to_files(iter, tmp_path, batches_of([(b"a", b""), *records, (b"z", b"")], 500))
    merged.clear()
    shares = sorted_shares(files, 10_000)
    keys = [key for share in shares for key, _ in share]
    assert keys == [b"a", *[b"m"] * 5000, b"z"]
    assert sum(merged) < 500


@pytest.mark.parametrize("batches", [[], [record_batch([])]], ids=["no batch", "an empty one"])
def test_no_record_makes_no_share(batches: list[Any], tmp_path: Path) -> None:
    files = sort_to_files(iter, tmp_path, batches)
    assert files == []
    assert key_shares(files, 100) == []
    assert list(tmp_path.iterdir()) == []


def test_a_source_is_split_into_small_batches() -> None:
    table = pa.table({"key": range(80_000)})
    for source in (table, iter(table.to_batches())):
        parts = list(source_batches(source))
        assert pa.Table.from_batches(parts) == table
        assert max(part.num_rows for part in parts) < 40_000
    # By the bytes a part shows, not those of the table it is a part of.
    assert len(list(sliced(parts, parts[0].nbytes + 1, attrgetter("nbytes")))) == 2
