"""The contract of table formats, which one module and one line of the registry fulfil."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Lake, Repository
from sparklake.errors import AlreadyExistsError, InvalidInputError, MergeConflictError
from sparklake.metadata import registry
from sparklake.verbs.tables.edits import edit_table
from sparklake.verbs.tables.registry import get_format
from tests.support import csv_tables
from tests.support.spark import has_iceberg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

ENGINE = "auto"
TABLE = "tables/t"

Row = tuple[int, str]


class FormatContract:
    """Behaviour of every table format. Subclasses supply the name."""

    name: str
    is_edited = True
    is_streamed = True

    @pytest.fixture
    def repo(self, lake: Lake, names: Iterator[str], namespace: Path) -> Repository:
        return lake.create_repository(next(names), str(namespace))

    def write(self, repo: Repository, ref: str, *rows: Row, mode: str = "append") -> None:
        branch = repo.branch(ref)
        branch.write(self.frame(repo, *rows), TABLE, format=self.name, mode=mode)
        branch.commit("write rows")

    def frame(self, repo: Repository, *rows: Row) -> DataFrame:
        spark: SparkSession = repo._context.runners.session()
        return spark.createDataFrame(rows, "id int, name string").coalesce(1)

    def rows(self, repo: Repository, ref: str = "main") -> list[Row]:
        return sorted((row.id, row.name) for row in repo.read(ref, TABLE).collect())

    def test_appended_rows_are_read(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        self.write(repo, "main", (2, "b"))
        assert self.rows(repo) == [(1, "a"), (2, "b")]
        assert self.rows(repo, "main~1") == [(1, "a")]

    def test_overwritten_rows_are_gone(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        self.write(repo, "main", (2, "b"), mode="overwrite")
        assert self.rows(repo) == [(2, "b")]

    def test_an_existing_table_is_kept(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        with pytest.raises(AlreadyExistsError):
            self.write(repo, "main", (2, "b"), mode="errorifexists")

    def test_a_table_keeps_its_format(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        repo.branch("main").write(self.frame(repo, (2, "b")), TABLE, mode="append")
        assert self.rows(repo) == [(1, "a"), (2, "b")]

    def test_branches_with_appends_merge(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        repo.create_branch("dev", "main")
        self.write(repo, "main", (2, "b"))
        self.write(repo, "dev", (3, "c"))
        assert not repo.preview_merge("dev", "main").unresolved
        repo.merge("dev", "main")
        assert self.rows(repo) == [(1, "a"), (2, "b"), (3, "c")]

    def test_branches_with_overwrites_conflict(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        repo.create_branch("dev", "main")
        self.write(repo, "main", (2, "b"), mode="overwrite")
        self.write(repo, "dev", (3, "c"), mode="overwrite")
        with pytest.raises(MergeConflictError):
            repo.merge("dev", "main")
        repo.merge("dev", "main", strategy="source-wins")
        assert self.rows(repo) == [(3, "c")]

    def test_differing_rows(self, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        self.write(repo, "main", (2, "b"))
        counts = repo.diff_table("main~1", "main", TABLE, key=["id"]).counts()
        assert (counts.added, counts.removed, counts.changed) == (1, 0, 0)

    def test_sql_reads_and_inserts(self, lake: Lake, repo: Repository) -> None:
        self.write(repo, "main", (1, "a"))
        table = f"lakefs.`{repo.name}`.main.`{TABLE}`"
        lake.sql(f"INSERT INTO {table} VALUES (2, 'b')")
        rows = lake.sql(f"SELECT id FROM {table} ORDER BY id").collect()
        assert [row.id for row in rows] == [1, 2]

    def test_an_edit_is_staged(self, repo: Repository) -> None:
        if not self.is_edited:
            return
        self.write(repo, "main", (1, "a"))
        with edit_table(repo._context, "main", TABLE, self.name) as copy:
            repo._context.runners.session().sql(f"INSERT INTO {copy.sql_name} VALUES (2, 'b')")
        assert self.rows(repo) == [(1, "a"), (2, "b")]

    def test_an_edit_needs_a_table(self, repo: Repository) -> None:
        if not self.is_edited:
            return
        edit = edit_table(repo._context, "main", TABLE, self.name)
        with pytest.raises(InvalidInputError, match=self.name), edit:
            pass

    def test_batches_of_streams_are_written(self, repo: Repository, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "one.json").write_text('{"id": 1, "name": "a"}')
        reader = repo._context.runners.session().readStream.schema("id int, name string")
        stream = reader.json(str(tmp_path / "in"))
        branch, place = repo.branch("main"), str(tmp_path / "checkpoint")
        options = {"format": self.name, "trigger": {"availableNow": True}}
        if not self.is_streamed:
            with pytest.raises(InvalidInputError, match="write_stream"):
                branch.write_stream(stream, TABLE, place, **options)
            return
        for _ in range(2):
            assert branch.write_stream(stream, TABLE, place, **options).awaitTermination(120)
        assert self.rows(repo) == [(1, "a")]


class TestParquet(FormatContract):
    name = "parquet"
    is_edited = False


class TestDelta(FormatContract):
    name = "delta"


if has_iceberg():

    class TestIceberg(FormatContract):
        name = "iceberg"
        is_streamed = False


class TestAnotherFormat(FormatContract):
    """A format of one module, and one line in the registry."""

    name = "rows"

    @pytest.fixture(autouse=True)
    def _registered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        formats = (*registry.BUILT_IN, csv_tables.METADATA)
        monkeypatch.setattr(registry, "BUILT_IN", formats)
        assert get_format("rows") is csv_tables.FORMAT
