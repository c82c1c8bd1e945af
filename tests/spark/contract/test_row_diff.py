"""Rows of a table that differ between two refs, and which files are read to tell."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.testing.lakes import commit_all
from sparklake.verbs.tables.row_diff import RowCounts, TableDiff
from tests.cli.running import run
from tests.jobs.running import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/x"
Rows = Mapping[Any, Any]
Names = Iterator[str]


@pytest.fixture
def repo(
    local_lake: Lake, spark: SparkSession, names: Iterator[str], namespace: Path
) -> Repository:
    """Is a repository whose plans run in this process: what is read here is for Spark to read."""
    return local_lake.create_repository(next(names), str(namespace), range_records=8)


def parquet(columns: Mapping[str, Any], schema: Mapping[str, pa.DataType] | None = None) -> bytes:
    table = pa.table(dict(columns), schema=pa.schema([*(schema or {}).items()]) if schema else None)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def uris(repo: Repository, ref: str, paths: Sequence[str]) -> set[str]:
    return {repo.stat(ref, each).address.replace("file:///", "file:/") for each in paths}


def read_files(diff: TableDiff) -> set[str]:
    return {each.replace("file:///", "file:/") for each in diff.to_df().inputFiles()}


def shown(diff: TableDiff, *columns: str) -> list[tuple[Any, ...]]:
    rows = diff.to_df().selectExpr("change", *columns).collect()
    return sorted((tuple(each) for each in rows), key=repr)


def two_commits(
    repo: Repository, left: Mapping[str, bytes | None], right: Mapping[str, bytes | None]
) -> None:
    """Commit files below the table; `main~1` is left and `main` is right."""
    main = repo.branch("main")
    for message, files in (("left", left), ("right", right)):
        commit_all(main, {f"{TABLE}/{name}": body for name, body in files.items()}, message)


def test_only_files_that_differ_are_read(repo: Repository, spark: SparkSession) -> None:
    kept, old = {"id": [1, 2], "v": ["a", "b"]}, {"id": [3, 4, None, 5], "v": ["c", "d", "n", "e"]}
    new = {"id": [None, 4, 3, 6], "v": ["n", None, "c", "f"]}
    two_commits(
        repo,
        {"kept.parquet": parquet(kept), "old.parquet": parquet(old), "_SUCCESS": b"1"},
        {"old.parquet": None, "new.parquet": parquet(new), "_SUCCESS": b"2"},
    )
    diff = repo.diff_table("main~1", "main", TABLE, ["id"])
    assert (diff.left_files, diff.right_files) == (
        (f"{TABLE}/old.parquet",),
        (f"{TABLE}/new.parquet",),
    )
    expected = spark.createDataFrame(
        [
            ("changed", 4, ["v"], (4, "d"), (4, None)),
            ("removed", 5, None, (5, "e"), None),
            ("added", 6, None, None, (6, "f")),
        ],
        "change string, id long, changed_columns array<string>, "
        "left struct<id: long, v: string>, right struct<id: long, v: string>",
    )
    ordered = [lambda frame: frame.coalesce(1).sortWithinPartitions("id")]
    assert_df_equality(diff.to_df(), expected, transforms=ordered, ignore_nullable=True)
    assert diff.counts() == RowCounts(added=1, removed=1, changed=1)
    assert diff.schema_changes == ()
    wanted = uris(repo, "main~1", diff.left_files) | uris(repo, "main", diff.right_files)
    assert read_files(diff) == wanted
    (row,) = [each for each in diff.documents(10) if each["change"] == "added"]
    assert (row["id"], row["left"], row["right"]) == (6, None, {"id": 6, "v": "f"})
    same = repo.diff_table("main", "main", TABLE, ["id"])
    assert (same.counts(), same.left_files, read_files(same)) == (RowCounts(), (), set())
    everything = repo.diff_table("main~2", "main", TABLE, ["id"])
    assert (everything.counts(), everything.schema_changes) == (RowCounts(added=6), ())


@pytest.mark.system
@pytest.mark.connect
def test_columns_that_come_go_and_change(repo: Repository) -> None:
    old = {"id": pa.int32(), "n": pa.int32(), "m": pa.map_(pa.string(), pa.int32())}
    new = {"id": pa.int64(), "n": pa.int64(), "m": pa.map_(pa.string(), pa.int32())}
    new["at"] = pa.date32()
    maps = [[("x", 1)], [("x", 2)], None]
    left = {"id": [1, 2, 3], "n": [1, 2, 3], "m": maps, "gone": ["g", None, None]}
    right = {"id": [1, 2, 3], "n": [1, 2, 4], "m": maps, "at": [None, date(2024, 2, 29), None]}
    two_commits(
        repo,
        {
            "a.parquet": parquet(left, {**old, "gone": pa.string()}),
            "keep.parquet": parquet({"z": [1]}),
        },
        {"a.parquet": parquet(right, new)},
    )
    diff = repo.diff_table("main~1", "main", TABLE, ["id"])
    assert [(each.column, each.change, each.left, each.right) for each in diff.schema_changes] == [
        ("id", "changed", "int", "bigint"),
        ("n", "changed", "int", "bigint"),
        ("gone", "removed", "string", None),
        ("at", "added", None, "date"),
    ]
    assert shown(diff, "id", "changed_columns") == [
        ("changed", 1, ["gone"]),
        ("changed", 2, ["at"]),
        ("changed", 3, ["n"]),
    ]
    some = repo.diff_table("main~1", "main", TABLE, ["id"], columns=["n"])
    assert shown(some, "id", "left.n", "right.n") == [("changed", 3, 3, 4)]
    for bad in ({"key": ["no"]}, {"key": ["m"]}, {"key": []}, {"key": ["id"], "columns": ["no"]}):
        with pytest.raises(InvalidInputError):
            repo.diff_table("main~1", "main", TABLE, **bad)
    with pytest.raises(InvalidInputError, match="choose parquet, orc, delta"):
        repo.diff_table("main~1", "main", TABLE, ["id"], format="csv")
    with pytest.raises(ObjectNotFoundError):
        repo.diff_table("main~1", "main", "tables/none", ["id"])


def test_a_key_that_is_there_twice_is_named(repo: Repository) -> None:
    two_commits(
        repo,
        {"a.parquet": parquet({"id": [1, 2], "k": ["x", "y"]})},
        {"b.parquet": parquet({"id": [3, 3], "k": ["z", "z"]})},
    )
    diff = repo.diff_table("main~1", "main", TABLE, ["id", "k"])
    for ask in (diff.counts, lambda: diff.documents(9)):
        with pytest.raises(InvalidInputError, match=r'\{"id":3,"k":"z"\}: choose key columns'):
            ask()


@pytest.mark.system
def test_partitions_are_columns_whose_type_all_files_decide(repo: Repository) -> None:
    null = "p=__HIVE_DEFAULT_PARTITION__"
    two_commits(
        repo,
        {
            "p=x%3D y/kept.parquet": parquet({"id": [0]}),
            "p=01/a.parquet": parquet({"id": [1, 2]}),
            f"{null}/a.parquet": parquet({"id": [3]}),
        },
        {"p=01/a.parquet": parquet({"id": [2]}), f"{null}/b.parquet": parquet({"id": [4]})},
    )
    diff = repo.diff_table("main~1", "main", TABLE, ["p", "id"])
    # As repo.read has it: "x= y" makes it text, though no file of that partition differs.
    assert shown(diff, "p", "id") == [("added", None, 4), ("removed", "01", 1)]


def test_the_command_and_the_job_say_the_same(
    repo: Repository, lake_dsn: str, spark: SparkSession, tmp_path: Path
) -> None:
    old, new = {"id": [1, 2], "v": ["a", "b"]}, {"id": [2, 3], "v": ["B", "é"], "more": [1, None]}
    two_commits(repo, {"a.parquet": parquet(old)}, {"a.parquet": parquet(new)})
    refs = [f"lakefs://{repo.name}/{ref}" for ref in ("main~1", "main")]
    words = [*refs, TABLE, "--key", "id", "--dsn", lake_dsn]
    ran = run("diff-table", *words, "--column", "v")
    assert sorted(ran.text.splitlines()) == [
        '+ added     id=3 v="\\u00e9"',
        '- removed   id=1 v="a"',
        '~ changed   id=2 v="b" -> "B"',
    ]
    assert "1 added, 1 removed, 1 changed" in ran.err
    assert "column more added: None -> bigint" in ran.err
    assert "there are more" in run("diff-table", *words, "--limit", "1").err
    summary = {
        "added": 1,
        "removed": 1,
        "changed": 1,
        "schema_changes": [{"column": "more", "change": "added", "left": None, "right": "bigint"}],
        "files": {"left": 1, "right": 1},
    }
    shown_summary = run("diff-table", *words, "--summary", "--output", "json").json
    size = shown_summary.pop("bytes")
    assert shown_summary == summary
    assert "read 2 differing files (" in run("diff-table", *words, "--summary").text
    place = (tmp_path / "rows").as_uri()
    assert job(0, "diff-table", *words, "--to", place) == {**summary, "bytes": size}
    assert spark.read.parquet(place).count() == 3
    rows = job(0, "diff-table", *words)
    assert {row["change"]: row["changed_columns"] for row in rows} == {
        "added": None,
        "removed": None,
        "changed": ["v", "more"],
    }
    assert job(2, "diff-table", *refs, TABLE, "--key", "no", "--dsn", lake_dsn)["kind"]


# --- Delta ----------------------------------------------------------------------------------------


def commit_folder(repo: Repository, place: Path, message: str) -> None:
    """Make the table in the repository what lies in a folder."""
    main = repo.branch("main")
    there = {each.relative_to(place).as_posix(): each for each in place.rglob("*")}
    files = {name: each for name, each in there.items() if each.is_file()}
    for each in [each.path for each in repo.objects("main", f"{TABLE}/")]:
        if each.removeprefix(f"{TABLE}/") not in files:
            main.delete(each)
    for name, each in files.items():
        main.put(f"{TABLE}/{name}", each.read_bytes())
    main.commit(message)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Path:
    """Make a Delta table with partitions, one of them null and one of odd letters."""
    rows = [(1, "one", "a b/c=d:é%"), (2, "two", None), (3, None, "x"), (4, "four", "x")]
    place = tmp_path / "delta"
    writer = spark.createDataFrame(rows, "id long, v string, p string").coalesce(1).write
    options = {"delta.checkpointInterval": "3", "delta.enableDeletionVectors": "false"}
    writer.format("delta").options(**options).partitionBy("p").save(place.as_uri())
    return place


@pytest.mark.system
def test_a_delta_table_is_compared_by_its_logs(
    repo: Repository, spark: SparkSession, delta: Path
) -> None:
    table = f"delta.`{delta.as_uri()}`"
    commit_folder(repo, delta, "first")
    spark.sql(f"UPDATE {table} SET v = 'zwei' WHERE id = 2")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    for number in (5, 6):
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'new', NULL)")
    commit_folder(repo, delta, "second")
    assert any("checkpoint" in each.path for each in repo.objects("main", f"{TABLE}/_delta_log/"))
    diff = repo.diff_table("main~1", "main", TABLE, ["p", "id"], format="delta")
    assert shown(diff, "id", "p", "left.v", "right.v") == [
        ("added", 5, None, None, "new"),
        ("added", 6, None, None, "new"),
        ("changed", 2, None, "two", "zwei"),
        ("removed", 1, "a b/c=d:é%", "one", None),
    ]
    assert not any("p=x/" in each for each in (*diff.left_files, *diff.right_files))
    assert diff.schema_changes == ()
    # What is rewritten without a change is read, and is no difference.
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
    commit_folder(repo, delta, "third")
    moved = repo.diff_table("main~1", "main", TABLE, ["id"], format="delta")
    assert (moved.counts(), bool(moved.left_files)) == (RowCounts(), True)
    assert [(each.column, each.change) for each in moved.schema_changes] == [("more", "added")]
    none = repo.diff_table("main~3", "main~2", TABLE, ["id"], format="delta")
    assert none.counts() == RowCounts(added=4)


@pytest.mark.system
@pytest.mark.parametrize(
    "change",
    ["delta.enableDeletionVectors' = 'true", "delta.columnMapping.mode' = 'name"],
    ids=["deletion vectors", "mapped columns"],
)
def test_a_delta_table_is_read_as_delta_reads_it(
    repo: Repository, spark: SparkSession, delta: Path, change: str
) -> None:
    table = f"delta.`{delta.as_uri()}`"
    commit_folder(repo, delta, "first")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{change}')")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    commit_folder(repo, delta, "second")
    spark.sql(f"INSERT INTO {table} VALUES (7, 'new', 'x')")
    commit_folder(repo, delta, "third")
    diff = repo.diff_table("main~2", "main", TABLE, ["id"], format="delta")
    assert shown(diff, "id", "left.v", "right.v") == [
        ("added", 7, None, "new"),
        ("removed", 3, None, None),
    ]


# --- the model ------------------------------------------------------------------------------------

CASES = 40
KEYS = st.one_of(st.none(), st.integers(0, 5))
SIDE = st.dictionaries(KEYS, st.one_of(st.none(), st.sampled_from("abc")), max_size=5)


@pytest.mark.system
@given(st.lists(st.tuples(SIDE, SIDE, st.integers(0, 3)), min_size=CASES, max_size=CASES))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_differ_as_dictionaries_do(repo: Repository, cases: list[Any]) -> None:
    kept: list[Any] = []
    sides: tuple[list[Any], list[Any]] = ([], [])
    expected = []
    for case, (left, right, rewritten) in enumerate(cases):
        for key in {*left, *right}:
            one, other = left.get(key, ...), right.get(key, ...)
            if one == other and (key or 0) % 4 != rewritten:
                kept.append((case, key, one))
                continue
            for side, value in ((0, one), (1, other)):
                if value is not ...:
                    sides[side].append((case, key, value))
            if one != other:
                kind = "added" if one is ... else "removed" if other is ... else "changed"
                expected.append((kind, case, key))
    schema = {"case": pa.int64(), "key": pa.int64(), "v": pa.string()}

    def files(rows: list[Any], count: int) -> list[bytes]:
        parts = [rows[start::count] for start in range(count)]
        columns = [[*zip(*part, strict=True)] or [()] * 3 for part in parts]
        return [
            parquet(dict(zip(schema, map(list, each), strict=True)), schema) for each in columns
        ]

    same = {f"k{at}.parquet": body for at, body in enumerate(files(kept, 2))}
    old = {f"l{at}.parquet": body for at, body in enumerate(files(sides[0], 3))}
    new = {f"r{at}.parquet": body for at, body in enumerate(files(sides[1], 2))}
    main, before = repo.branch("main"), [each.path for each in repo.objects("main")]
    for each in before:
        main.delete(each)
    main.commit("empty", allow_empty=True)
    two_commits(repo, {**same, **old}, {**dict.fromkeys(old), **new})
    diff = repo.diff_table("main~1", "main", TABLE, ["case", "key"])
    assert shown(diff, "case", "key") == sorted(expected, key=repr)
    assert not {f"{TABLE}/{each}" for each in same} & {*diff.left_files, *diff.right_files}
