"""Tables: written by Spark's own writers, read from the files of any version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality

from sparklake import Branch, Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidKeyError,
    MissingFileError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from sparklake.verbs.tables import version, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/x"


def same_rows(left: DataFrame, right: DataFrame) -> None:
    """Compare schemas and rows; whether columns may be null is lost in files."""
    assert_df_equality(left, right, transforms=[in_order], ignore_nullable=True)


def in_order(frame: DataFrame) -> DataFrame:
    return frame.coalesce(1).sortWithinPartitions(*(f"`{name}`" for name in frame.columns))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "one"), (2, "zwei"), (3, None)], "id int, name string")


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "listings"), [("append", 1), ("overwrite", 2)])
def test_a_write_lists_the_table_once_and_again_where_it_removes_files(
    main: Branch, frame: DataFrame, monkeypatch: pytest.MonkeyPatch, mode: str, listings: int
) -> None:
    main.write(frame.coalesce(1), TABLE)
    paths, open_table = list[str](), write.open_table

    def counted(context: Any, ref: str, path: str) -> Any:
        paths.append(path)
        return open_table(context, ref, path)

    for module in (version, write):
        monkeypatch.setattr(module, "open_table", counted)
    main.write(frame.coalesce(1), TABLE, mode=mode)
    assert paths == [TABLE] * listings


@pytest.mark.parametrize(
    ("table_format", "options"),
    [
        pytest.param("parquet", {}, marks=pytest.mark.connect),
        ("orc", {}),
        ("json", {}),
        ("csv", {"header": True, "inferSchema": True}),
    ],
)
def test_a_table_is_read_as_it_was_written(
    repo: Repository, main: Branch, frame: DataFrame, table_format: str, options: dict[str, Any]
) -> None:
    write_options = {name: value for name, value in options.items() if name == "header"}
    written = main.write(frame.coalesce(1), TABLE, format=table_format, **write_options)
    assert (written.path, written.files > 0, written.size > 0) == (TABLE, True, True)
    back = repo.read("main", TABLE, format=table_format, **options)
    same_rows(back.select("id", "name").withColumn("id", back.id.cast("int")), frame)


@pytest.mark.system
@pytest.mark.parametrize("table_format", ["parquet", "orc", "avro"])
def test_nested_rows_of_odd_partitions_come_back(
    repo: Repository, main: Branch, spark: SparkSession, table_format: str
) -> None:
    columns = [
        "id",
        "struct(id as a, array(id, null) as b) as nested",
        "map('k', struct(timestamp'2024-02-29 23:59:59.123456' as at)) as keyed",
        "cast(id + 0.25 as decimal(20, 4)) as price",
        "element_at(array('a b', '50% = x', '日本/é', null, 'a=b', repeat('long ', 30)), id) as p",
    ]
    rows = spark.range(1, 7, 1, 2).selectExpr("int(id) as id").selectExpr(*columns)
    main.write(rows, TABLE, table_format, partition_by=["p"])
    main.commit("nested")
    back = repo.read("main", TABLE, table_format).select(rows.columns)
    assert rows_of(back) == rows_of(rows)


def test_a_column_may_have_any_name(repo: Repository, main: Branch, spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("id", "id as _Sparklake_Partition").coalesce(1)
    main.write(rows, TABLE)
    same_rows(repo.read("main", TABLE), rows)


def test_lines_of_text_come_back(repo: Repository, main: Branch, spark: SparkSession) -> None:
    lines = spark.createDataFrame([("one",), ("zwei é",), ("",)], "value string")
    main.write(lines, TABLE, "text", compression="gzip")
    same_rows(repo.read("main", TABLE, "text"), lines)


def test_modes(repo: Repository, main: Branch, frame: DataFrame) -> None:
    one = frame.where("id = 1").coalesce(1)
    two = frame.where("id = 2").coalesce(1)
    main.write(one, TABLE)
    for mode in ("errorifexists", "error", "ErrorIfExists", "default"):
        with pytest.raises(AlreadyExistsError, match="append or overwrite"):
            main.write(two, TABLE, mode=mode)
    same_rows(repo.read("main", TABLE), one)
    main.write(two, TABLE, mode="append")
    same_rows(repo.read("main", TABLE), one.union(two))
    main.write(two, TABLE, mode="overwrite")
    same_rows(repo.read("main", TABLE), two)
    main.write(repo.read("main", TABLE).union(one), TABLE, mode="overwrite")  # of itself
    same_rows(repo.read("main", TABLE), one.union(two))
    main.write(one, "tables/x-next-to-it", mode="errorifexists")


@pytest.mark.parametrize(
    ("path", "options", "error"),
    [
        (TABLE, {"mode": "upsert"}, InvalidInputError),
        (TABLE, {"mode": "overwrite-partitions"}, InvalidInputError),
        (TABLE, {"partitionBy": "id"}, InvalidInputError),
        ("/", {}, InvalidInputError),
        ("../x", {}, InvalidKeyError),
        ("x" * 1025, {}, InvalidKeyError),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_written(
    repo: Repository,
    main: Branch,
    frame: DataFrame,
    namespace: Path,
    path: str,
    options: dict[str, str],
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        main.write(frame, path, **options)
    assert not (namespace / "data").exists()
    assert not main.is_dirty


@pytest.mark.system
def test_what_could_not_be_read_with_the_rest_is_refused(
    repo: Repository, main: Branch, frame: DataFrame
) -> None:
    main.write(frame, TABLE, partition_by=["name"])
    for columns in ((), ("id",), ("Name",), ("name", "id")):
        with pytest.raises(InvalidInputError, match="is partitioned by name on 'main'"):
            main.write(frame, TABLE, mode="append", partition_by=columns)
    main.write(frame, "tables/y")
    with pytest.raises(InvalidInputError, match="is partitioned by no column"):
        main.write(frame, "tables/y", mode="append", partition_by=["name"])
    main.write(frame, "tables/y", mode="overwrite", partition_by=["name"])
    main.write(frame, "tables/y", mode="append", partition_by=["name"])
    assert repo.read("main", "tables/y").count() == 6


def test_what_is_no_frame_of_spark_is_refused(main: Branch) -> None:
    with pytest.raises(InvalidInputError, match="write needs a Spark DataFrame, not"):
        main.write(pa.table({"id": [1]}), TABLE)  # type: ignore[arg-type]


def test_a_branch_that_is_not_there_is_not_written_to(
    repo: Repository, frame: DataFrame, namespace: Path
) -> None:
    gone = repo.create_branch("gone", "main")
    repo.delete_branch("gone")
    with pytest.raises(RefNotFoundError):
        gone.write(frame, TABLE)
    assert not (namespace / "data").exists()


def test_a_write_that_fails_stages_nothing(
    repo: Repository, main: Branch, frame: DataFrame
) -> None:
    main.write(frame, TABLE)
    main.commit("written")
    failing = frame.selectExpr("id", "if(id = 3, raise_error('no such name'), name) as name")
    with pytest.raises(Exception, match="no such name"):
        main.write(failing.repartition(3, "id"), TABLE, mode="overwrite")
    assert not main.is_dirty
    same_rows(repo.read("main", TABLE), frame)


# --- partitions -----------------------------------------------------------------------------------

ODD = "a b/c=d:é%"
"""A value of which Spark writes some characters as %XX."""


@pytest.mark.system
def test_partitions_of_every_type_are_read_as_they_were_written(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    names = ["number", "text", "day", "at", "an odd=name%"]
    data = [
        (1, 1, ODD, date(2024, 2, 29), "2024-02-29 23:59:59", 1.5),
        (2, -5, "[x]{y}*?", date(1999, 12, 31), "2024-01-01 00:00:00", -2.25),
        (3, None, None, None, None, None),
    ]
    kinds = ["int", "string", "date", "string", "double"]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(names, kinds, strict=True))
    frame = spark.createDataFrame(data, f"id int, {schema}")
    frame = frame.withColumn("at", frame.at.cast("timestamp"))
    main.write(frame.coalesce(1), TABLE, partition_by=names)
    assert any("text=a b%2Fc%3Dd%3Aé%25" in each.path for each in repo.objects("main", TABLE))
    back = repo.read("main", TABLE)
    same_rows(back, frame)
    same_rows(back.where(back.text == ODD).select("id"), frame.where("id = 1").select("id"))
    same_rows(back.where("day > '2000-01-01'").select("id"), frame.where("id = 1").select("id"))
    same_rows(back.where("number is null").select("id"), frame.where("id = 3").select("id"))


@pytest.mark.system
def test_partition_types_hold_what_all_writes_wrote(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    schema = "id int, p string"
    first = spark.createDataFrame([(1, "7"), (2, None)], schema).coalesce(1)
    main.write(first, TABLE, partition_by=["p"])
    same_rows(repo.read("main", TABLE), first.selectExpr("id", "int(p) as p"))
    second = spark.createDataFrame([(3, "3000000000")], schema).coalesce(1)
    main.write(second, TABLE, mode="append", partition_by=["p"])
    same_rows(repo.read("main", TABLE), first.union(second).selectExpr("id", "bigint(p) as p"))
    third = spark.createDataFrame([(4, "seven")], schema).coalesce(1)
    main.write(third, TABLE, mode="append", partition_by=["p"])
    same_rows(repo.read("main", TABLE), first.union(second).union(third))


@pytest.mark.system
def test_partition_types_are_text_where_spark_is_told_not_to_guess(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    frame = spark.createDataFrame([(1, "007")], "id int, p string").coalesce(1)
    main.write(frame, TABLE, partition_by=["p"])
    guess = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(guess, "false")
    try:
        same_rows(repo.read("main", TABLE), frame)
    finally:
        spark.conf.unset(guess)
    same_rows(repo.read("main", TABLE), frame.selectExpr("id", "int(p) as p"))


@pytest.mark.system
def test_files_put_one_by_one_have_the_partitions_of_their_folders(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    def body(**columns: list[Any]) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink)
        return sink.getvalue().to_pybytes()

    main.put(f"{TABLE}/p=1/q=a%20b/one.parquet", body(id=[1]))
    main.put(f"{TABLE}/p=1/q=a%20b/two.parquet", body(id=[2]))
    main.put(f"{TABLE}/p=2/q=__HIVE_DEFAULT_PARTITION__/sub/three.parquet", body(id=[3]))
    # Some writers keep the columns in the file, too: the folder is right.
    main.put(f"{TABLE}/p=3/q=c/four.parquet", body(p=[99], id=[4], q=["other"]))
    main.put(f"{TABLE}/p=3/q=c/_SUCCESS", b"")
    expected = [(1, 1, "a b"), (2, 1, "a b"), (3, 2, None), (4, 3, "c")]
    same_rows(repo.read("main", TABLE), spark.createDataFrame(expected, "id long, p int, q string"))
    # And beside those that Spark writes.
    more = spark.createDataFrame([(5, 4, "d")], "id long, p int, q string").coalesce(1)
    main.write(more, TABLE, mode="append", partition_by=["p", "q"])
    assert rows_of(repo.read("main", TABLE)) == [*expected, (5, 4, "d")]


def test_files_of_different_partition_folders_are_refused(repo: Repository, main: Branch) -> None:
    main.put(f"{TABLE}/p=1/one.json", b'{"id": 1}')
    main.put(f"{TABLE}/q=1/two.json", b'{"id": 2}')
    with pytest.raises(InvalidInputError, match="different partition folders"):
        repo.read("main", TABLE, format="json")


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.system
def test_a_table_is_read_at_every_version(repo: Repository, main: Branch, frame: DataFrame) -> None:
    one, two, three = (frame.where(f"id = {number}").coalesce(1) for number in (1, 2, 3))
    main.write(one, TABLE, partition_by=["id"])
    first = main.commit("one")
    repo.create_tag("v1", "main")
    main.write(two, TABLE, mode="append", partition_by=["id"])
    main.commit("two")
    branch = repo.create_branch("dev:other", "main")
    branch.write(three, TABLE, mode="overwrite", partition_by=["id"])
    order = ["id", "name"]
    for ref in ("v1", first.id[:12]):
        same_rows(repo.read(ref, TABLE).select(order), one)
    for ref in ("main", "dev:other@"):
        same_rows(repo.read(ref, TABLE).select(order), one.union(two))
    same_rows(repo.read("dev:other", TABLE).select(order), three)
    branch.commit("three")
    repo.merge("dev:other", "main")
    same_rows(repo.read("main", TABLE).select(order), three)


@pytest.mark.system
def test_a_table_of_many_writes_is_read_as_one(
    repo: Repository, main: Branch, spark: SparkSession, namespace: Path
) -> None:
    table = {"size": [], "path": [], "address": [], "checksum": []}
    for number in range(60):
        place = f"data/write-{number}/p={number % 7}/part.json"
        (namespace / place).parent.mkdir(parents=True)
        (namespace / place).write_text(f'{{"id": {number}}}')
        table["size"].append((namespace / place).stat().st_size)
        table["path"].append(f"{TABLE}/p={number % 7}/part-{number}.json")
        table["address"].append(place)
        table["checksum"].append(f"{number}")
    main.stage(pa.table(table))
    expected = [(number, number % 7) for number in range(60)]
    assert sorted(rows_of(repo.read("main", TABLE, format="json"))) == expected


def test_what_is_not_there_is_not_read(repo: Repository, main: Branch, frame: DataFrame) -> None:
    main.write(frame, "tables/xy")
    main.put(f"{TABLE}/_SUCCESS", b"")
    main.put(f"{TABLE}/_delta_log/000.json", b"{}")
    for path in (TABLE, "tables/nothing"):
        with pytest.raises(ObjectNotFoundError, match="no data file"):
            repo.read("main", path)
    with pytest.raises(ObjectNotFoundError):
        repo.read("main@", "tables/xy")
    with pytest.raises(RefNotFoundError):
        repo.read("nobody", TABLE)
    main.write(frame.where("id > 5"), TABLE, mode="overwrite", partition_by=["id"])
    with pytest.raises(ObjectNotFoundError):
        repo.read("main", TABLE)


def test_hidden_files_are_passed_over(repo: Repository, main: Branch, frame: DataFrame) -> None:
    main.write(frame, TABLE, format="json")
    for path in ("_SUCCESS", "_delta_log/000.json", ".hidden.json", "_temporary/0/part-0.json"):
        main.put(f"{TABLE}/{path}", b'{"id": 99, "log": "no row"}')
    back = repo.read("main", TABLE, format="json")
    same_rows(back.selectExpr("int(id) as id", "name"), frame)


def test_a_data_file_that_is_gone_is_named(
    repo: Repository, main: Branch, frame: DataFrame, namespace: Path
) -> None:
    main.write(frame.coalesce(1), TABLE)
    (file,) = [each for each in repo.objects("main", TABLE) if each.path.endswith(".parquet")]
    Path(file.address.removeprefix("file://")).unlink()
    with pytest.raises(MissingFileError, match=f"{Path(file.address).name}. It was moved or"):
        repo.read("main", TABLE)


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.system
def test_an_imported_table_is_read_where_it_lies(
    repo: Repository, main: Branch, frame: DataFrame, tmp_path: Path
) -> None:
    place = tmp_path / "else where {a,b}[c]*?%20#é" / "table"
    for name in ("one", "zwei"):
        folder = place / f"name={name}"
        folder.mkdir(parents=True)
        pq.write_table(
            pa.table({"id": pa.array([len(name)], pa.int32())}), folder / "part[0]*.parquet"
        )
    main.import_objects(str(place), "imported/it")
    back = repo.read("main", "imported/it")
    assert rows_of(back) == [(3, "one"), (4, "zwei")]
    # More rows of it lie in the namespace then.
    main.write(frame.where("id = 1"), "imported/it", mode="append", partition_by=["name"])
    assert rows_of(repo.read("main", "imported/it")) == [(1, "one"), (3, "one"), (4, "zwei")]


@pytest.fixture
def odd_repo(lake: Lake, names: Iterator[str], tmp_path: Path) -> Repository:
    return lake.create_repository(next(names), str(tmp_path / "a b{c,d}[e]*?%25#é=1" / "lake"))


@pytest.mark.system
def test_a_namespace_may_have_any_name(odd_repo: Repository, frame: DataFrame) -> None:
    main = odd_repo.branch("main")
    main.write(frame, "tables/{a,b} [c]*", partition_by=["name"])
    main.write(frame, "plain?")
    main.commit("written")
    same_rows(odd_repo.read("main", "tables/{a,b} [c]*").select("id", "name"), frame)
    same_rows(odd_repo.read("main", "plain?"), frame)


def test_an_append_needs_the_columns_of_the_table(
    spark: SparkSession, repo: Repository, main: Branch
) -> None:
    first = spark.sql(
        "SELECT 1 AS id, 1.5D AS price, TIMESTAMP '2024-01-01 00:00:00' AS at, array('x') AS words,"
        " TIMESTAMP_NTZ '2024-01-01 00:00:00' AS here, 'a' AS p, map('a', 1L) AS pairs"
    )
    main.write(first, TABLE, partition_by=["p"])
    other = first.withColumn("price", first.price.cast("string"))
    for mode in ("append", "overwrite-partitions"):
        for options in ({}, {"mergeSchema": True}):
            with pytest.raises(InvalidInputError, match=r"price \(double, string\)"):
                main.write(other, TABLE, mode=mode, partition_by=["p"], **options)
    main.write(first, TABLE, mode="append", partition_by=["p"])
    main.write(first.withColumnRenamed("id", "ID"), TABLE, mode="append", partition_by=["p"])
    assert repo.read("main", TABLE).count() == 3
    wider = first.withColumn("more", first.id)
    renamed = [first[each].alias(f"new_{each}") for each in first.columns if each != "p"]
    other_names = first.select(*renamed, "p")
    for rows, names in (
        (wider, "new are more"),
        (first.drop("price"), "missing are price"),
        (
            other_names,
            "missing are at, here, id, pairs, price, words; "
            "new are new_at, new_here, new_id, new_pairs, new_price, new_words",
        ),
    ):
        with pytest.raises(InvalidInputError, match=f"columns of the rows .*: {names}. Set"):
            main.write(rows, TABLE, mode="append", partition_by=["p"])
    for rows in (wider, first.drop("price")):
        main.write(rows, TABLE, mode="append", partition_by=["p"], mergeSchema=True)
    assert "more" in repo.read("main", TABLE, mergeSchema=True).columns
    assert repo.read("main", TABLE, mergeSchema=True).count() == 5
    main.write(other, TABLE, mode="append", partition_by=["p"], schema_check=False)
    main.write(other, TABLE, mode="overwrite", partition_by=["p"])
    assert repo.read("main", TABLE).schema["price"].dataType.simpleString() == "string"


@pytest.mark.system
def test_nanoseconds_of_pandas(spark: SparkSession, repo: Repository, main: Branch) -> None:
    frame = pd.DataFrame({"id": [1], "at": pd.to_datetime(["2024-01-01 00:00:00.123456"])})
    assert frame["at"].dtype == "datetime64[ns]"
    with main.open("files/a.parquet", "wb") as file:
        frame.to_parquet(file)
    main.commit("as pandas writes it")
    for read in (
        lambda: repo.read("main", "files"),
        lambda: repo.read("main", "files", mergeSchema=True),
        lambda: repo.read("main", "files", pathGlobFilter="*"),
        lambda: repo.view("main", "files"),
        lambda: repo.diff_table("main~1", "main", "files", ["id"]),
    ):
        with pytest.raises(InvalidInputError, match=r"in nanoseconds.*coerce_timestamps"):
            read()
    # Spark's own timestamps have microseconds.
    main.write(spark.createDataFrame(frame), TABLE)
    (row,) = repo.read("main", TABLE).collect()
    assert str(row["at"]) == "2024-01-01 00:00:00.123456"
    with pytest.raises(InvalidInputError, match="in nanoseconds, timestamp"):
        main.write(spark.createDataFrame(frame), "files", mode="append")
    with main.open("files/a.parquet", "wb") as file:
        frame.to_parquet(file, coerce_timestamps="us", allow_truncated_timestamps=True)
    assert str(repo.read("main", "files").collect()[0]["at"]) == "2024-01-01 00:00:00.123456"
