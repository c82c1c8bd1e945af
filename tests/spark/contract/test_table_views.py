"""Tables are read through a Delta log of their own: of Parquet files, and of Delta tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake import Branch, Lake, Repository, missing_files
from sparklake.errors import InvalidInputError, MissingFileError, ObjectNotFoundError
from sparklake.layout import VIEWS_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/x"
ODD = ["a b", "50%", "c=d", "é/ü", "#1", "?", None, "x" * 150]
"""Values of a partition column of which most are escaped in a path, and again in a log."""


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def rust_rows(uri: str) -> list[tuple[Any, ...]]:
    """Return the rows of a Delta table as the Rust reader sees them."""
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    table = pa.table(found.execute("select * from t").read_all())
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def views(namespace: Path) -> list[str]:
    return sorted(str(each) for each in (namespace / VIEWS_FOLDER).rglob("*") if each.is_file())


@pytest.fixture
def repo(
    local_lake: Lake, spark: SparkSession, names: Iterator[str], namespace: Path
) -> Repository:
    """Is a repository whose plans run in this process: what is read here is for Spark to read."""
    return local_lake.create_repository(next(names), str(namespace), range_records=8)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def odd_frame(spark: SparkSession) -> DataFrame:
    rows = [(number, (number, [str(number)]), value) for number, value in enumerate(ODD)]
    return spark.createDataFrame(rows, "id int, nested struct<a: int, b: array<string>>, p string")


@pytest.mark.system
def test_parquet_is_read_through_a_log_that_is_written_once(
    repo: Repository, main: Branch, spark: SparkSession, namespace: Path
) -> None:
    frame = odd_frame(spark).coalesce(1)
    main.write(frame, TABLE, partition_by=["p"])
    found = repo.read("main", TABLE)
    assert rows_of(found) == rows_of(frame)
    assert rows_of(found.where("p = '50%'").select("id")) == [(1,)]
    assert "_sparklake/views" not in found.inputFiles()[0]
    made = views(namespace)
    assert len(made) == 4
    main.commit("the same objects, in other ranges")
    repo.create_tag("v1", "main")
    assert rows_of(repo.read("v1", TABLE)) == rows_of(repo.read("main", TABLE)) == rows_of(frame)
    made = views(namespace)
    uri = repo.view("v1", TABLE)
    assert Path(uri.removeprefix("file://")).parent == namespace / VIEWS_FOLDER
    assert views(namespace) == made
    assert rows_of(spark.sql(f"SELECT id, nested, p FROM delta.`{uri}`")) == rows_of(frame)
    assert [row[0] for row in rust_rows(uri)] == list(range(len(ODD)))
    files = [each for each in repo.objects("v1", TABLE) if each.path.endswith(".parquet")]
    counts = (len(files), sum(each.size for each in files))
    (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").collect()
    assert (detail.numFiles, detail.sizeInBytes) == counts
    summary = json.loads(next(Path(uri.removeprefix("file://")).rglob("*.crc")).read_bytes())
    assert (summary["numFiles"], summary["tableSizeBytes"]) == counts
    with pytest.raises(Exception, match="sparklakeView"):
        frame.write.format("delta").mode("append").save(uri)


@pytest.mark.system
def test_one_file_under_two_names_is_read_twice(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    main.write(spark.range(3).coalesce(1), TABLE)
    main.commit("written")
    (file,) = [each.path for each in repo.objects("main", TABLE) if each.path.endswith(".parquet")]
    main.copy(file, f"{TABLE}/a second name.parquet")
    assert rows_of(repo.read("main", TABLE)) == [(each // 2,) for each in range(6)]
    assert rust_rows(repo.view("main", TABLE)) == [(each // 2,) for each in range(6)]


@pytest.mark.system
def test_schemas_are_merged_where_that_is_asked_for(
    repo: Repository, main: Branch, tmp_path: Path
) -> None:
    place = tmp_path / "made by others"
    (place / "p=1").mkdir(parents=True)
    (place / "p=2").mkdir()
    stamps = pa.array([0], pa.timestamp("us"))
    pq.write_table(pa.table({"id": [1], "at": stamps}), place / "p=1" / "a.parquet")
    pq.write_table(pa.table({"id": [2], "at": stamps, "name": ["b"]}), place / "p=2" / "b.parquet")
    main.import_objects(str(place), TABLE)
    assert repo.read("main", TABLE).columns == ["id", "at", "p"]
    merged = repo.read("main", TABLE, mergeSchema=True)
    assert dict(merged.dtypes)["at"] == "timestamp_ntz"
    assert rows_of(merged.select("id", "name", "p")) == [(1, None, 1), (2, "b", 2)]
    # An option that only Spark's own reader of Parquet has.
    assert rows_of(repo.read("main", TABLE, pathGlobFilter="b*").select("id")) == [(2,)]
    with pytest.raises(InvalidInputError, match="an option"):
        repo.view("main", TABLE, pathGlobFilter="b*")
    with pytest.raises(InvalidInputError, match="not csv"):
        repo.view("main", TABLE, format="csv")


def test_a_file_that_is_gone_is_named_by_the_reading_of_it(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    main.write(spark.range(4).repartition(2), TABLE)
    files = [each for each in repo.objects("main", TABLE) if each.path.endswith(".parquet")]
    Path(files[-1].address.removeprefix("file://")).unlink()
    found = repo.read("main", TABLE)
    with pytest.raises(MissingFileError, match=Path(files[-1].address).name), missing_files():
        found.collect()
    with pytest.raises(ZeroDivisionError), missing_files():
        _ = 1 // 0


# --- Delta tables ---------------------------------------------------------------------------------


@pytest.mark.system
def test_a_delta_table_is_read_at_every_ref(
    repo: Repository, main: Branch, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "delta %41"
    truth: list[list[tuple[Any, ...]]] = []

    def change(mode: str, first: int, *options: tuple[str, str]) -> None:
        rows = spark.range(first, first + 4, 1, 1).selectExpr("id", "concat(id % 2, ' %é') as p")
        writer = rows.write.format("delta").partitionBy("p").options(**dict(options))
        writer.mode(mode).save(str(place))

    def keep() -> None:
        main.import_objects(str(place), TABLE)
        truth.append(rows_of(spark.read.format("delta").load(str(place))))

    table = f"delta.`{place}`"
    settings = ("delta.enableDeletionVectors", "true"), ("delta.checkpointInterval", "2")
    change("append", 0, *settings)
    keep()
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    keep()
    change("append", 10)
    change("append", 20)
    keep()
    change("overwrite", 30)
    keep()
    assert list(map(len, truth)) == [4, 3, 11, 4]
    for number, rows in enumerate(truth):
        ref = f"main~{len(truth) - 1 - number}"
        assert rows_of(repo.read(ref, TABLE, format="delta")) == rows, ref
    assert rows_of(repo.read("main", TABLE, format="delta", versionAsOf=1)) == truth[1]
    for options, words in (
        ({"versionAsOf": 99}, "no version 99"),
        ({"timestampAsOf": "2024-01-01"}, "use a ref"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            repo.read("main", TABLE, format="delta", **options)


@pytest.mark.connect
def test_a_delta_table_by_the_rust_writer(
    repo: Repository, main: Branch, tmp_path: Path, namespace: Path
) -> None:
    place = tmp_path / "rust"
    rows = [{"id": number, "p": value} for number, value in enumerate(ODD)]
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("p", pa.string())]))
    deltalake.write_deltalake(place, table, partition_by=["p"])
    main.import_objects(str(place), TABLE)
    deltalake.write_deltalake(place, table.slice(0, 1), mode="append")
    deltalake.DeltaTable(place).delete("id = 2")
    deltalake.DeltaTable(place).create_checkpoint()
    deltalake.write_deltalake(place, table.slice(1, 1), mode="append")
    main.import_objects(str(place), TABLE)
    first = [(number, value) for number, value in enumerate(ODD)]
    later = [*(each for each in first if each[0] != 2), *first[:2]]
    for ref, expected in (("main~1", first), ("main", later)):
        assert rows_of(repo.read(ref, TABLE, format="delta")) == sorted(expected, key=repr)
        assert rust_rows(repo.view(ref, TABLE, format="delta")) == sorted(expected, key=repr)
    made = views(namespace)
    repo.read("main", TABLE, format="delta")
    assert views(namespace) == made


@pytest.mark.system
def test_renamed_columns_and_a_checkpoint_in_parts(
    repo: Repository, main: Branch, spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "delta"
    settings = {"delta.columnMapping.mode": "name", "delta.checkpointInterval": "2"}
    spark.conf.set("spark.databricks.delta.checkpoint.partSize", "2")
    try:
        for first in range(0, 12, 4):
            rows = spark.range(first, first + 4, 1, 1).selectExpr("id", "concat(id % 2, ' %é') p")
            writer = rows.write.format("delta").partitionBy("p").options(**settings)
            writer.mode("append").save(str(place))
    finally:
        spark.conf.unset("spark.databricks.delta.checkpoint.partSize")
    assert len(list(place.glob(f"_delta_log/{2:020}.checkpoint.*.*.parquet"))) > 1
    main.import_objects(str(place), TABLE)
    spark.sql(f"ALTER TABLE delta.`{place}` RENAME COLUMN id TO `the number`")
    main.import_objects(str(place), TABLE)
    truth = [(number, f"{number % 2} %é") for number in range(12)]
    for ref, name in (("main~1", "id"), ("main", "the number")):
        found = repo.read(ref, TABLE, format="delta")
        assert found.columns == [name, "p"]
        assert rows_of(found) == sorted(truth, key=repr)
        assert found.where("p = '1 %é'").count() == 6


@pytest.mark.system
def test_a_delta_table_is_read_as_nothing_else(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    rows = spark.range(4)
    main.write(rows, TABLE, format="delta")
    with main.edit_delta(TABLE) as location:
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id < 2")
    main.commit("without two rows, whose files are still there")
    for reading in (
        lambda: repo.read("main", TABLE, format="parquet"),
        lambda: repo.read("main", TABLE, format="orc"),
        lambda: repo.view("main", TABLE, format="parquet"),
        lambda: repo.diff_table("main~1", "main", TABLE, ["id"], format="parquet"),
    ):
        with pytest.raises(InvalidInputError, match=r"is a Delta table at .* the format 'delta'"):
            reading()
    assert rows_of(repo.read("main", TABLE, format="delta")) == [(2,), (3,)]
    # Without a format, the log decides.
    assert rows_of(repo.read("main", TABLE)) == [(2,), (3,)]
    assert repo.view("main", TABLE) == repo.view("main", TABLE, format="delta")
    assert repo.diff_table("main~1", "main", TABLE, ["id"]).counts().added == 2
    main.write(rows, TABLE, "parquet", mode="overwrite")
    assert repo.read("main", TABLE).count() == 4
    main.commit("files")
    with pytest.raises(InvalidInputError, match="is a Delta and a Parquet table at 'main~1' and"):
        repo.diff_table("main~1", "main", TABLE, ["id"])
    # Nor is a partition of one a table of files.
    main.write(rows.withColumn("p", rows.id % 2), TABLE, "delta", "overwrite", ["p"])
    with pytest.raises(InvalidInputError, match="'tables/x' is a Delta table"):
        repo.read("main", f"{TABLE}/p=1")
    main.write(rows.withColumn("p", rows.id % 2), "tables/y", partition_by=["p"])
    assert rows_of(repo.read("main", "tables/y/p=1").select("id")) == [(1,), (3,)]


def test_what_is_no_whole_delta_table_is_refused(repo: Repository, main: Branch) -> None:
    with pytest.raises(ObjectNotFoundError, match="no Delta table"):
        repo.read("main", TABLE, format="delta")
    main.put(f"{TABLE}/_delta_log/{1:020}.json", b"{}")
    with pytest.raises(MissingFileError, match=f"{0:020}.json"):
        repo.read("main", TABLE, format="delta")
