"""Tables of Iceberg, Hudi and Lance: refused where their files would be taken as plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sparklake import Repository
from sparklake.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from tests.support.folders import memory_folder
from tests.support.lakes import memory_lake

MARKS = {
    "Iceberg": "metadata/00003-9ba0e9d4.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Lance": "_versions/1.manifest",
}
# Nothing of it is asked for: the write is refused before Spark does anything.
ROWS: Any = SimpleNamespace(sparkSession=None)

marks = pytest.mark.parametrize(("name", "mark"), MARKS.items(), ids=MARKS)


@pytest.fixture
def repo() -> Iterator[Repository]:
    with memory_folder() as folder, memory_lake() as lake:
        yield lake.create_repository("lake", str(folder / "ns"))


def put(repo: Repository, *paths: str) -> None:
    for path in paths:
        repo.branch("main").put(path, b"body")


@marks
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("path", ["a/t", "a/t/data", "a/t/data/day=1", "/a/t/data/day=1/"])
@pytest.mark.parametrize(
    "verb",
    [
        lambda repo, path: repo.read("main", path),
        lambda repo, path: repo.read("main", path, format="orc"),
        lambda repo, path: repo.view("main", path),
        lambda repo, path: repo.branch("main").write(ROWS, path, mode="append"),
        lambda repo, path: repo.branch("main").write(ROWS, f"{path}/new"),
        lambda repo, path: repo.branch("main").write(
            ROWS, path, mode="overwrite-partitions", partition_by=["day"]
        ),
    ],
    ids=["read", "read-orc", "view", "append", "write-new", "overwrite-partitions"],
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
    with pytest.raises(InvalidInputError) as raised:
        verb(repo, path)
    said = str(raised.value)
    assert f"a table of the format {name} at 'main', since there is 'a/t/{mark}'" in said
    assert "Export the table's folder" in said
    assert "repo.open" in said


@marks
def test_rows_of_such_a_table_are_not_compared(repo: Repository, name: str, mark: str) -> None:
    put(repo, "t/0.parquet", f"t/{mark}")
    repo.branch("main").commit("tables")
    with pytest.raises(InvalidInputError, match=f"a table of the format {name}"):
        repo.diff_table("main~1", "main", "t", ["id"])


@marks
def test_a_repository_that_is_such_a_table_is_refused(
    repo: Repository, name: str, mark: str
) -> None:
    put(repo, "data/0.parquet", mark)
    with pytest.raises(InvalidInputError, match=f"'data' is in a table of the format {name}"):
        repo.read("main", "data")


@pytest.mark.parametrize("name", ["iceberg", "Iceberg", "hudi", "lance"])
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
    with pytest.raises(InvalidInputError, match=f"format {name.title()} are neither read"):
        verb(repo, name)


@pytest.mark.parametrize(
    "other",
    [
        "t/metadata/notes.json",
        "t/sub/metadata/v1.metadata.json",
        "u/metadata/v1.metadata.json",
        "t.hoodie/x",
        "metadata-old/v1.metadata.json",
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


def test_an_iceberg_table_is_known_among_many_manifests(repo: Repository) -> None:
    names = [f"metadata/{number:08x}-m0.avro" for number in range(10**8, 10**8 + 1200)]
    put(repo, *(f"t/{each}" for each in names), "t/metadata/v7.metadata.json", "t/data/0.parquet")
    with pytest.raises(InvalidInputError, match=r"'t/metadata/v7.metadata.json'"):
        repo.read("main", "t/data")
