"""Tables of Iceberg, Hudi and Lance: refused where their files would be taken as plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import StructType

from benchmarks.counting import counted_trips, recorded_reads
from sparklake import Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    ObjectNotFoundError,
)
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.base.open_trees import TreeCaches
from sparklake.verbs.base.snapshot import open_snapshot
from sparklake.verbs.tables.version import open_table
from tests.support.lakes import stage_sizes

MARKS = {
    "Iceberg": "metadata/00003-9ba0e9d4.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Lance": "_versions/1.manifest",
}
# Nothing of it is asked for: the write is refused before Spark does anything.
ROWS: Any = SimpleNamespace(sparkSession=None, schema=StructType())

READS_OF_TABLES: tuple[Callable[[Repository, str], object], ...] = (
    lambda repo, path: repo.read("main", path),
    lambda repo, path: repo.view("main", path),
)
"""Without a format, an Iceberg table is read as one."""

marks = pytest.mark.parametrize(("name", "mark"), MARKS.items(), ids=MARKS)


@pytest.fixture
def repo() -> Iterator[Repository]:
    with memory_folder() as folder, memory_lake() as lake:
        yield lake.create_repository("lake", str(folder / "ns"))


@pytest.fixture
def ranged() -> Iterator[Repository]:
    """Yield a repository whose trees have many ranges."""
    with memory_folder() as folder, memory_lake() as lake:
        yield lake.create_repository("lake", str(folder / "ns"), range_records=8)


def put(repo: Repository, *paths: str) -> None:
    for path in paths:
        repo.branch("main").put(path, b"body")


@marks
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("path", ["a/t", "a/t/data", "a/t/data/day=1", "/a/t/data/day=1/"])
@pytest.mark.parametrize(
    "verb",
    [
        *READS_OF_TABLES,
        lambda repo, path: repo.read("main", path, format="orc"),
        lambda repo, path: repo.branch("main").write(ROWS, path, format="parquet", mode="append"),
        lambda repo, path: repo.branch("main").write(ROWS, f"{path}/new"),
        lambda repo, path: repo.branch("main").write(
            ROWS, path, format="parquet", mode="overwrite-partitions", partition_by=["day"]
        ),
    ],
    ids=["read", "view", "read-orc", "append", "write-new", "overwrite-partitions"],
)
def test_a_path_in_such_a_table_is_refused(
    repo: Repository,
    verb: Callable[[Repository, str], object],
    path: str,
    staged: bool,
    name: str,
    mark: str,
) -> None:
    put(repo, "a/t/data/day=1/0.parquet", "a/u/0.parquet", f"a/t/{mark}")
    if not staged:
        repo.branch("main").commit("tables")
    if name == "Iceberg" and path == "a/t" and verb in READS_OF_TABLES:
        with pytest.raises(CorruptFileError, match=r"the Iceberg table 'a/t' .* is damaged"):
            repo.view("main", path)  # `read` starts Spark first.
        return
    with pytest.raises(InvalidInputError) as raised:
        verb(repo, path)
    said = str(raised.value)
    assert f"a table of the format {name} at 'main', because it contains 'a/t/{mark}'" in said
    remedy = "repo.read(ref, path, 'iceberg')" if name == "Iceberg" else "repo.open"
    assert remedy in said


@pytest.mark.parametrize("path", ["a/t/p=2", "/a/t/new/q=1/", "a/t/_delta_log"])
@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("Delta", "_delta_log/00000000000000000003.json"),
        ("Delta", "_delta_log/00000000000000000003.checkpoint.parquet"),
        ("Iceberg", MARKS["Iceberg"]),
    ],
)
def test_a_write_below_a_table_is_refused(
    repo: Repository, name: str, mark: str, mode: str, table_format: str, path: str
) -> None:
    put(repo, "a/t/p=1/0.parquet", f"a/t/{mark}", "b/0.parquet")
    if table_format == "parquet":
        repo.branch("main").commit("tables")
    options: dict[str, Any] = {"partitionOverwriteMode": "static"}
    with pytest.raises(InvalidInputError) as raised:
        repo.branch("main").write(ROWS, path, format=table_format, mode=mode, **options)
    said = str(raised.value)
    where = f"is in a table of the format {name} at 'main', because it contains 'a/t/{mark}'"
    assert f"{path!r} {where}" in said
    assert f"write to it with format={name.lower()!r}" in said


@marks
def test_rows_of_such_a_table_are_not_compared(repo: Repository, name: str, mark: str) -> None:
    put(repo, "t/0.parquet", f"t/{mark}")
    repo.branch("main").commit("tables")
    with pytest.raises(InvalidInputError, match=f"a table of the format {name}"):
        repo.diff_table("main~1", "main", "t", ["id"], format="parquet")


@marks
def test_a_repository_that_is_such_a_table_is_refused(
    repo: Repository, name: str, mark: str
) -> None:
    put(repo, "data/0.parquet", mark)
    with pytest.raises(InvalidInputError, match=f"'data' is in a table of the format {name}"):
        repo.read("main", "data")


@pytest.mark.parametrize("name", ["hudi", "Hudi", "lance"])
@pytest.mark.parametrize(
    "verb",
    [
        lambda repo, name: repo.read("main", "t", format=name),
        lambda repo, name: repo.view("main", "t", format=name),
        lambda repo, name: repo.diff_table("main~1", "main", "t", ["id"], format=name),
        lambda repo, name: repo.branch("main").write(ROWS, "t", format=name),
    ],
    ids=["read", "view", "diff-table", "write"],
)
def test_such_a_format_is_refused_by_its_name(
    repo: Repository, verb: Callable[[Repository, str], object], name: str
) -> None:
    put(repo, "t/0.parquet")
    repo.branch("main").commit("table")
    with pytest.raises(InvalidInputError, match=f"format {name.title()} cannot be read"):
        verb(repo, name)


@pytest.mark.parametrize(
    "other",
    [
        "t/metadata/notes.json",
        "t/sub/metadata/v1.metadata.json",
        "u/metadata/v1.metadata.json",
        "t.hoodie/x",
        "metadata-old/v1.metadata.json",
        "metadata/sub/v1.metadata.json",
        "metadata/version-hint.text.old",
    ],
)
def test_what_is_no_mark_refuses_nothing(repo: Repository, other: str) -> None:
    """Where nothing is refused, an empty table is missed, and one that is there may not be new."""
    put(repo, other, "t/0.parquet")
    with pytest.raises(AlreadyExistsError):
        repo.branch("main").write(ROWS, "t")
    with pytest.raises(ObjectNotFoundError):
        repo.read("main", "v/none")
    with pytest.raises(InvalidInputError, match="partitioned by no column"):
        repo.branch("main").write(ROWS, "t", mode="append", partition_by=["day"])


@pytest.mark.parametrize("name", ["v7", "fffffff0-9ba0e9d4"])
def test_an_iceberg_table_is_known_among_many_manifests(repo: Repository, name: str) -> None:
    sizes = dict.fromkeys((f"t/metadata/{number:08x}-m0.avro" for number in range(1, 3000)), 1)
    stage_sizes(repo.branch("main"), {**sizes, f"t/metadata/{name}.metadata.json": 1})
    put(repo, "t/data/0.parquet")
    with pytest.raises(InvalidInputError, match=rf"'t/metadata/{name}.metadata.json'"):
        repo.read("main", "t/data")


@marks
@pytest.mark.parametrize("staged", [True, False])
def test_a_removed_mark_refuses_nothing(
    repo: Repository, staged: bool, name: str, mark: str
) -> None:
    main = repo.branch("main")
    put(repo, "t/0.parquet", f"t/{mark}")
    main.commit("a table of another format")
    if staged:
        main.delete(f"t/{mark}")
    else:
        stage_sizes(main, {f"t/{mark}": None})
    assert open_table(repo._context, "main", "t/new").owner is None
    assert open_table(repo._context, "main@", "t/new").owner is not None
    put(repo, f"t/{mark}")
    assert open_table(repo._context, "main", "t/new").owner is not None


def test_a_clean_table_costs_a_few_lookups(ranged: Repository) -> None:
    """Only ranges are read that may hold metadata, and nothing is listed."""
    paths = [f"a/{folder}/t/{number}.parquet" for folder in "bcdefgh" for number in range(100)]
    main = ranged.branch("main")
    stage_sizes(main, dict.fromkeys(paths, 1))
    tree = ranged._context.trees.get(main.commit("tables").meta_range_id)
    assert len(tree.ranges) > 50
    caches = TreeCaches(ranged._context.workspace, ranged._context.refs)
    caches.current().trees.keep(tree)
    context = replace(ranged._context, caches=caches)
    with recorded_reads() as names:
        assert open_table(context, "main", "a/e/t").owner is None
    # All objects are in folders of `a/` that come in a row, so its own metadata would lie
    # in front of all ranges or behind them. That leaves the two that go on from one folder to the
    # next, before `a/e/t/` and behind it.
    assert len(set(names)) == 2
    with recorded_reads() as again:
        open_table(context, "main", "a/e/t/none")
    assert set(again) <= set(names)


@pytest.mark.parametrize("is_dirty", [False, True], ids=["clean", "dirty"])
def test_the_check_adds_no_statement(lake: Lake, is_dirty: bool) -> None:
    with memory_folder() as folder:
        repo = lake.create_repository(f"repo-{uuid4().hex}", str(folder / "ns"))
        put(repo, "a/b/t/0.parquet")
        repo.branch("main").commit("a table")
        if is_dirty:
            put(repo, "a/b/t/1.parquet", "a/metadata/notes.txt")
        context = repo._context
        open_snapshot(context, "main", b"a/b/t/", readable=True)
        with counted_trips() as bare:
            open_snapshot(context, "main", b"a/b/t/", readable=True)
        with counted_trips() as checked:
            assert open_table(context, "main", "a/b/t").owner is None
    assert len(bare) == len(checked) > 0
