"""Parquet tables with files of several types: written so that they stay readable, or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import InvalidInputError, MergeConflictError
from tests.support.parquet_types import STORED_TYPES
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/x"
ROWS = "id int, at timestamp, s struct<a: int, b: array<string>>, m map<string, int>, day int"


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


@pytest.fixture
def far_session(spark: SparkSession) -> Iterator[SparkSession]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.connect
def test_nulls_without_a_type_get_that_of_the_table(
    repo: Repository, lake: Lake, main: Branch, spark: SparkSession
) -> None:
    row = "1 id, timestamp'2024-01-01 12:00:00' at, named_struct('a', 1, 'b', array('x')) s"
    rows = spark.sql(f"SELECT {row}, map('k', 1) m, 1 day")
    main.write(rows, TABLE, partition_by=["day"])
    nested = "named_struct('a', null, 'b', array(null)) S, map('k', null) m"
    void = spark.sql(f"SELECT 2 id, null at, {nested}, 2 day")
    main.write(void, TABLE, mode="append", partition_by=["day"])
    path = f"{lake_path(repo)}/{TABLE}"
    flat = spark.sql("SELECT 3 id, null at, null s, null m, 3 day")
    lake.write(flat).mode("append").partitionBy("day").parquet(path)
    main.write(flat, TABLE, mode="overwrite-partitions", partition_by=["day"], schema_check=False)
    back = repo.read("main", TABLE).orderBy("id")
    found = back.selectExpr("id", "at is null", "s.a", "s.b", "m", "day").collect()
    assert [tuple(row) for row in found] == [
        (1, False, 1, ["x"], {"k": 1}, 1),
        (2, True, None, [None], {"k": None}, 2),
        (3, True, None, None, None, 3),
    ]


def lake_path(repo: Repository) -> str:
    return f"lakefs://{repo.name}/main"


def test_nulls_without_a_type_are_refused_in_new_columns(
    repo: Repository, main: Branch, spark: SparkSession
) -> None:
    void = spark.sql("SELECT 1 id, null n, array(null) l")
    for mode in ("errorifexists", "append", "overwrite"):
        with pytest.raises(InvalidInputError, match=r"n, l in the rows .*cast\('string'\)"):
            main.write(void, TABLE, mode=mode)
    typed = void.selectExpr("id", "cast(n as string) n", "cast(l as array<int>) l")
    main.write(typed, TABLE)
    main.write(void, TABLE, mode="append")
    more = void.selectExpr("*", "null more")
    with pytest.raises(InvalidInputError, match="more in the rows"):
        main.write(more, TABLE, mode="append", mergeSchema=True)
    assert [tuple(row) for row in repo.read("main", TABLE).collect()] == [(1, None, [None])] * 2


def test_instants_and_local_times_are_not_mixed(
    repo: Repository, main: Branch, far_session: SparkSession
) -> None:
    local = far_session.sql("SELECT timestamp_ntz'2024-01-01 12:00:00' at")
    instants = local.selectExpr("cast(at as timestamp) at")
    for first, second in ((local, instants), (instants, local)):
        main.write(first, TABLE, mode="overwrite")
        with pytest.raises(InvalidInputError, match=r"at \(timestamp.*, timestamp.*\)"):
            main.write(second, TABLE, mode="append")
        kind = first.schema["at"].dataType
        main.write(second.withColumn("at", second["at"].cast(kind)), TABLE, mode="append")
        back = repo.read("main", TABLE)
        texts = [row[0] for row in back.selectExpr("cast(at as string)").collect()]
        assert texts == ["2024-01-01 12:00:00"] * 2


def test_a_merge_of_types_that_cannot_be_read_together_is_a_conflict(repo: Repository) -> None:
    main = repo.branch("main")
    names = ("UINT(64), always (20,0)", "FLOAT16", "UNKNOWN (null)", "TIMESTAMP(MICROS)")
    others = ("INT(64)", "FLOAT", "STRING", "INT96")
    for number, (name, other) in enumerate(zip(names, others, strict=True)):
        dev = repo.create_branch(f"dev{number}", "main")
        for branch, kind in ((dev, name), (main, other)):
            branch.put(f"t{number}/{branch.name}.parquet", STORED_TYPES[kind].file())
            branch.commit("added")
        with pytest.raises(MergeConflictError, match="different types in source and dest: v"):
            repo.merge(dev.name, "main")


def spark_values(spark: SparkSession, folder: Path) -> list[str]:
    return sorted(repr(row) for row in spark.read.parquet(str(folder)).collect())


def duckdb_values(folder: Path) -> list[str] | None:
    files = f"read_parquet('{folder}/*.parquet', union_by_name=true)"
    try:
        rows = duckdb.sql(f"SELECT v::VARCHAR FROM {files}").fetchall()
    except duckdb.ConversionException:
        # Texts as JSON.
        return None
    return sorted(value.removesuffix("+00") for (value,) in rows)


def arrow_values(folder: Path) -> list[str] | None:
    try:
        values = ds.dataset(folder).to_table(columns=["v"])["v"].to_pylist()
    except pa.ArrowInvalid:
        # Numbers out of the range of the first file's unsigned type.
        return None
    return sorted(str(value).removesuffix("+00:00") for value in values)


@pytest.mark.system
@pytest.mark.skipif(IS_3, reason="Spark 3.5 reads fewer types")
def test_equal_types_are_read_together_whichever_file_is_first(
    far_session: SparkSession, tmp_path: Path
) -> None:
    """Spark reads all files of one type as it reads each alone; DuckDB and pyarrow may raise."""
    groups = defaultdict[str, list[str]](list)
    for name, each in STORED_TYPES.items():
        if each.alone:
            groups[each.spark].append(name)
    readers = (partial(spark_values, far_session), duckdb_values, arrow_values)
    for kind, names in groups.items():
        folders = [tmp_path / f"{kind}-{at}" for at in range(len(names))]
        for folder, name in zip(folders, names, strict=True):
            folder.mkdir()
            (folder / "a.parquet").write_bytes(STORED_TYPES[name].file())
        alone = [[read(folder) or [] for folder in folders] for read in readers]
        for folder, first in zip(folders, names, strict=True):
            for position, name in enumerate(names):
                if name != first:
                    (folder / f"b{position}.parquet").write_bytes(STORED_TYPES[name].file())
            for read, values in zip(readers, alone, strict=True):
                together = read(folder)
                if together is not None:
                    assert together == sorted(chain(*values)), (kind, first, read)
