"""Streams into tables on branches, and out of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import InvalidInputError, RaceLostError, RefNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark]

ENGINE = "auto"

NOW = {"availableNow": True}
TABLE = "tables/events"


class Source:
    """A folder of JSON files, of which a stream takes one in each micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.checkpoint = spark, folder / "in", str(folder / "checkpoint")
        self.folder.mkdir()
        self.files = 0

    def add(self, *ids: int) -> None:
        for each in ids:
            self.files += 1
            (self.folder / f"{self.files:03}.json").write_text(f'{{"id": {each}}}')

    def rows(self) -> DataFrame:
        reader = self.spark.readStream.schema("id int").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))

    def forget_the_last_commit(self) -> None:
        """Make the last batch one that Spark does not know to be complete, as after a kill."""
        commits = Path(self.checkpoint, "commits")
        last = max((each for each in commits.iterdir() if each.name.isdecimal()), key=_number)
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(120)


def stream(branch: Branch, source: Source, **options: Any) -> None:
    options = {"trigger": NOW, **options}
    finish(branch.write_stream(source.rows(), TABLE, source.checkpoint, **options))


def ids(repo: Repository, ref: str = "main") -> list[int]:
    return sorted(row.id for row in repo.read(ref, TABLE).select("id").collect())


def batches(repo: Repository) -> list[str]:
    log = (each.metadata for each in repo.log("main"))
    return [each["stream-epoch"] for each in log if "stream-epoch" in each]


@pytest.mark.parametrize(
    "table_format",
    [
        pytest.param("parquet", marks=pytest.mark.connect),
        pytest.param("delta", marks=pytest.mark.system),
    ],
)
def test_each_batch_is_one_commit_with_its_offsets_and_none_is_repeated(
    lake_of_home: Lake, repo: Repository, source: Source, table_format: str
) -> None:
    repo = lake_of_home.repository(repo.name)
    main = repo.branch("main")
    source.add(1, 2)
    stream(main, source, format=table_format)
    assert (ids(repo), batches(repo)) == ([1, 2], ["1", "0"])
    metadata = main.head.metadata
    assert set(metadata) == {"stream-query", "stream-epoch", "stream-offsets"}
    assert '"logOffset":1' in metadata["stream-offsets"]
    head = main.head.id
    source.forget_the_last_commit()
    stream(main, source, format=table_format)
    assert (main.head.id, main.is_dirty, ids(repo)) == (head, False, [1, 2])


@pytest.mark.system
def test_a_stream_keeps_the_format_of_a_table(
    lake_of_home: Lake, repo: Repository, spark: SparkSession, source: Source
) -> None:
    table = f"lakefs://{repo.name}/main/{TABLE}"
    lake = lake_of_home
    lake.write(spark.createDataFrame([(9,)], "id int")).format("delta").save(table)
    source.add(1)
    writer = lake.write_stream(source.rows()).trigger(**NOW)
    finish(writer.option("checkpointLocation", source.checkpoint).start(table))
    assert ids(repo) == [1, 9]
    assert len(list(repo.objects("main", f"{TABLE}/_delta_log/"))) == 2
    with pytest.raises(InvalidInputError, match="clusterBy is not possible"):
        writer.clusterBy("id").start(table)


@pytest.mark.system
def test_batches_that_wait_for_a_commit_are_not_staged_again_after_their_keys_expire(
    repo: Repository, source: Source, lake_dsn: str
) -> None:
    main = repo.branch("main")
    source.add(1, 2, 3)
    stream(main, source, every=2)
    assert (batches(repo), main.is_dirty, len(ids(repo, "main@"))) == (["1"], True, 2)
    for _ in range(2):  # Staged, and then committed by someone else.
        source.forget_the_last_commit()
        expire_keys(lake_dsn)
        stream(main, source, every=2)
        assert ids(repo) == [1, 2, 3]
        if main.is_dirty:
            main.commit("by someone else")
    source.add(4)
    stream(main, source, every=2)
    head = main.head.id
    main.delete_prefix(f"{TABLE}/")
    main.commit("no files at all")
    source.forget_the_last_commit()
    expire_keys(lake_dsn)
    stream(main, source, every=2)
    assert repo.log("main", limit=2).to_arrow()["id"].to_pylist()[1] == head
    assert not main.is_dirty


@pytest.mark.parametrize(
    "table_format", ["parquet", pytest.param("delta", marks=pytest.mark.system)]
)
def test_a_skipped_batch_of_a_stream_with_state_consumes_its_rows(
    repo: Repository, source: Source, lake_dsn: str, table_format: str
) -> None:
    main = repo.branch("main")

    def run() -> None:
        rows = source.rows().dropDuplicates(["id"])
        options = {"format": table_format, "every": 2, "trigger": NOW}
        finish(main.write_stream(rows, TABLE, source.checkpoint, **options))

    source.add(1, 1, 2)
    run()
    # Staged, with a key and without one; then committed.
    for expires, last in ((False, 2), (True, 2), (True, 3)):
        if last == 3:
            source.add(3)
            run()
        source.forget_the_last_commit()
        if expires:
            expire_keys(lake_dsn)
        run()
        assert ids(repo) == [*range(1, last + 1)]
    source.add(1, 2, 3, 4)
    run()
    assert ids(repo) == [1, 2, 3, 4]


def expire_keys(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM sparklake.once_keys")


@pytest.mark.system
def test_lost_races_are_retried_and_the_table_can_be_replaced(
    repo: Repository, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = repo.branch("main")
    source.add(1, 2)
    lost = iter([True, False, True])
    commit = Branch.commit

    def racing(branch: Branch, *arguments: Any, **options: Any) -> Any:
        if next(lost, False):
            raise RaceLostError("others were faster")
        return commit(branch, *arguments, **options)

    monkeypatch.setattr(Branch, "commit", racing)
    rows = source.rows().groupBy().count().withColumnRenamed("count", "id")
    options = {"output_mode": "complete", "trigger": NOW, "query_name": "counts"}
    finish(main.write_stream(rows, TABLE, source.checkpoint, **options))
    assert (ids(repo), batches(repo)) == ([2], ["1", "0"])


def test_what_cannot_be_streamed_says_why(repo: Repository, source: Source) -> None:
    main, rows = repo.branch("main"), source.rows()
    for options, words in (
        ({"output_mode": "update"}, "run MERGE in branch.edit_delta"),
        ({"every": 0}, "every must be 1 or more"),
        ({"checkpoint": "lakefs://lake/main/c"}, "choose a folder outside of the lake"),
        ({"once": "k"}, "a stream cannot have the option 'once'"),
        ({"rows": None}, "write_stream needs a DataFrame"),
        ({"format": "iceberg"}, "tables of the format Iceberg cannot be written"),
    ):
        terms = {"rows": rows, "path": TABLE, "checkpoint": source.checkpoint, **options}
        with pytest.raises(InvalidInputError, match=words):
            main.write_stream(**terms)
    with pytest.raises(RefNotFoundError):
        repo.branch("none").write_stream(rows, TABLE, source.checkpoint)
