"""Which files a Delta table has at one ref and not at another, as readers of Delta have them."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from sparklake import Repository
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.testing.lakes import contents, memory_lake
from sparklake.verbs.base.resolve import get_commit
from sparklake.verbs.delta.diff import delta_sides
from sparklake.verbs.tables.diff_sides import FolderPair
from tests.support.delta import (
    LOG,
    TABLE,
    Change,
    append,
    change_table,
    checkpoint,
    clean_log,
    delete,
    optimize,
)


@pytest.fixture
def repo(folder: Path) -> Repository:
    """Have a table of the ids 1 to 3, each in a file."""
    repo = memory_lake().create_repository("lake", str(folder / "namespace"), range_records=4)
    change(repo, folder, append(1), append(2), append(3))
    repo.create_tag("left", "main")
    return repo


def change(repo: Repository, folder: Path, *changes: Change) -> None:
    change_table(repo, repo.branch("main"), folder / "work", *changes)


def sides(repo: Repository, left: str, right: str) -> tuple[TableSide, TableSide]:
    context, refs = repo._context, (left, right)
    one, other = (context.tree(get_commit(context, ref)) for ref in refs)
    return delta_sides(FolderPair(context, f"{TABLE}/", refs, (one, other)))


def ids(side: TableSide) -> list[int]:
    """Return the ids in a view of a side, as the Rust reader has them."""
    assert side.view is not None
    table = deltalake.DeltaTable(side.view)
    assert len(table.file_uris()) == len(side.paths)
    rows = pa.table(deltalake.QueryBuilder().register("t", table).execute("select id from t"))
    return sorted(rows.column("id").to_pylist())


@pytest.mark.parametrize(
    "last",
    [(), (checkpoint,), (checkpoint, clean_log), (checkpoint, clean_log, append(6))],
    ids=["commits", "checkpoint", "cleaned", "commits since it was cleaned"],
)
def test_only_files_that_differ_are_there(
    repo: Repository, folder: Path, last: tuple[Change, ...]
) -> None:
    change(repo, folder, delete("id = 2"), append(4), append(5), delete("id = 5"), *last)
    more = [6] if len(last) > 2 else []
    one, other = sides(repo, "left", "main")
    assert (ids(one), ids(other)) == ([2], [4, *more])
    other, one = sides(repo, "main", "left")
    assert (ids(one), ids(other)) == ([2], [4, *more])
    one, other = sides(repo, "main", "main")
    assert (ids(one), ids(other)) == ([], [])


def test_rewritten_files_differ_from_those_they_stand_for(repo: Repository, folder: Path) -> None:
    change(repo, folder, optimize)
    one, other = sides(repo, "left", "main")
    assert (ids(one), ids(other)) == ([1, 2, 3], [1, 2, 3])
    assert (len(one.paths), len(other.paths)) == (3, 1)


def test_a_table_that_one_ref_has(repo: Repository) -> None:
    one, other = sides(repo, "main~1", "main")
    assert (one.is_there, ids(other)) == (False, [1, 2, 3])


def test_another_file_under_the_same_name_differs(repo: Repository) -> None:
    main = repo.branch("main")
    paths = sorted(each.path for each in repo.objects("main", TABLE) if "/part-" in each.path)
    main.put(paths[0], contents(repo, "main")[paths[1]])
    main.commit("no writer of Delta does so")
    one, other = sides(repo, "left", "main")
    assert (one.paths, other.paths) == ((paths[0],), (paths[0],))


def test_half_a_checkpoint_is_none(repo: Repository, folder: Path) -> None:
    change(repo, folder, append(4))
    main = repo.branch("main")
    main.put(f"{LOG}{3:020}.checkpoint.{1:010}.{2:010}.parquet", b"one of two")
    main.commit("its writer died")
    one, other = sides(repo, "left", "main")
    assert (ids(one), ids(other)) == ([], [4])


def test_what_is_not_understood_is_refused(repo: Repository, folder: Path) -> None:
    change(repo, folder, append(4))
    main = repo.branch("main")
    gone = sides(repo, "left", "main")[1].paths[0]
    main.delete(gone)
    main.commit("no longer there")
    with pytest.raises(ObjectNotFoundError, match="which the log of its table references"):
        sides(repo, "left", "main")
    main.delete(f"{LOG}{0:020}.json")
    main.put(f"{LOG}{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", b"{")
    main.commit("a checkpoint of the second form")
    with pytest.raises(InvalidInputError, match="checkpoint 2 cannot be read"):
        sides(repo, "left", "main")
