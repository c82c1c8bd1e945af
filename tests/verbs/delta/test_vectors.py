"""Deletion vectors of both sides of a merge: in files, damaged, and the rows that conflict."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sparklake import Lake, MergeConflictError, Repository
from sparklake.documents import error_document
from sparklake.errors import CorruptFileError
from sparklake.metadata.delta import vectors
from sparklake.metadata.vectors.bitmaps import positions
from sparklake.rows.overlaps import RowOverlap
from sparklake.testing.lakes import contents
from tests.support.delta_desks import refused
from tests.support.written_tables import WrittenTable, add, created, remove

FOLDER = "tables/t/"
ROWS = 3000
DAY = datetime.date(2026, 1, 1)
STATS = json.dumps({"numRecords": ROWS})


def body() -> bytes:
    file = io.BytesIO()
    rows = pa.table({"id": range(ROWS), "day": [DAY] * ROWS})
    parquet.write_table(rows, file, row_group_size=500)
    return file.getvalue()


BODY = body()


class Marks:
    """Two branches of a repository with a table of one file."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self.repo: Repository = lake.create_repository("lake", namespace, range_records=4)
        self.fields: dict[str, Mapping[str, Any]] = {}
        table = WrittenTable(self.repo, "main")
        table.change(*created("t"), add("a", stats=STATS), body=BODY)
        table.commit()
        self.repo.create_branch("dev", "main")

    def mark(self, branch: str, *rows: int) -> None:
        """Commit a vector, in a file if it is large."""
        ([descriptor], files) = vectors.new_vectors([positions(*rows)])
        old = self.fields.get(branch, {})
        self.fields[branch] = {"deletionVector": descriptor}
        for name, file in files.items():
            self.repo.branch(branch).put(f"{FOLDER}{name}", file)
        table = WrittenTable(self.repo, branch)
        table.change(remove("a", **old), add("a", stats=STATS, **self.fields[branch]), body=BODY)
        table.commit()

    def deleted(self, ref: str) -> list[int]:
        descriptor = WrittenTable(self.repo, ref).last("a")["deletionVector"]
        place = vectors.vector_place(descriptor)
        file = None if place is None else contents(self.repo, ref)[f"{FOLDER}{place.path}"]
        return vectors.decode_vector(descriptor, file).tolist()


@pytest.fixture
def marks(small_lake: Lake, folder: str) -> Marks:
    return Marks(small_lake, f"{folder}/namespace")


def test_large_vectors_of_both_sides_become_one_in_a_file(marks: Marks) -> None:
    marks.mark("dev", *range(0, ROWS, 3))
    marks.mark("main", 1)
    marks.mark("main", *range(1, ROWS, 3))
    preview = marks.repo.preview_merge("dev", "main")
    before = contents(marks.repo, "main")
    marks.repo.merge("dev", "main")
    assert marks.deleted("main") == [each for each in range(ROWS) if each % 3 < 2]
    # Two vectors of source and dest, and one of both.
    after = contents(marks.repo, "main")
    assert sum("deletion_vector" in each for each in after) == 3
    assert (preview.added, preview.unresolved) == (len(after.keys() - before.keys()), 0)
    # The same merge, after a reset, writes the same file.
    marks.repo.branch("main").hard_reset("main~1")
    marks.repo.merge("dev", "main")
    assert {each for each in contents(marks.repo, "main") if "vector" in each} == {
        each for each in after if "vector" in each
    }


def test_the_rows_of_an_overlap_are_read_from_their_row_groups(
    marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks.mark("dev", 7, 700, 2999, 5)
    marks.mark("main", 7, 700, 2999, 6)
    with refused(marks.repo, "same rows: a at positions 7, 700, 2999") as raised:
        marks.repo.merge("dev", "main")
    error: MergeConflictError = pickle.loads(pickle.dumps(raised.value))
    (overlap,) = error.overlaps
    assert isinstance(overlap, RowOverlap)
    assert (overlap.table, overlap.file.path) == ("tables/t", f"{FOLDER}a")
    assert (overlap.positions, overlap.count) == ((7, 700, 2999), 3)
    (document,) = error_document(error)["overlaps"]
    assert document["positions"] == [7, 700, 2999]
    groups: list[int] = []
    read = parquet.ParquetFile.read_row_group

    def noted(file: parquet.ParquetFile, at: int, **options: Any) -> pa.Table:
        groups.append(at)
        return read(file, at, **options)

    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", noted)
    rows = marks.repo.overlapping_rows(error)
    assert [(each["position"], each["row"]) for each in rows] == [
        (each, {"id": each, "day": DAY}) for each in (7, 700, 2999)
    ]
    assert groups == [0, 1, 5]
    assert [each["position"] for each in marks.repo.overlapping_rows(error, limit=1)] == [7]


def test_damaged_and_missing_vectors_are_a_conflict(marks: Marks) -> None:
    marks.mark("dev", *range(0, ROWS, 3))
    marks.mark("main", 1)
    dev = marks.repo.branch("dev")
    (path,) = (each for each in contents(marks.repo, "dev") if "deletion_vector" in each)
    whole = contents(marks.repo, "dev")[path]
    dev.put(path, whole[:-1] + bytes([whole[-1] ^ 1]))
    dev.commit("damaged a vector")
    with refused(marks.repo, r"the deleted rows of a cannot be read .*wrong size or CRC"):
        marks.repo.merge("dev", "main")
    dev.delete(path)
    dev.commit("deleted a vector")
    with refused(marks.repo, r"the deleted rows of a cannot be read .*is not in the table"):
        marks.repo.merge("dev", "main")
    dev.put(path, whole)
    dev.commit("restored a vector")
    marks.repo.merge("dev", "main")
    assert marks.deleted("main") == sorted({1, *range(0, ROWS, 3)})


def test_a_file_that_is_not_parquet_has_no_rows_to_show(small_lake: Lake, folder: str) -> None:
    marks = Marks(small_lake, f"{folder}/namespace")
    marks.mark("dev", 1)
    marks.mark("main", 1)
    for branch in ("dev", "main"):
        marks.repo.branch(branch).put(f"{FOLDER}a", b"text")
        marks.repo.branch(branch).commit("replaced the file")
    with refused(marks.repo, "same rows: a at position 1") as raised:
        marks.repo.merge("dev", "main")
    with pytest.raises(CorruptFileError, match="conflicting rows of 'tables/t/a' cannot be read"):
        marks.repo.overlapping_rows(raised.value)
