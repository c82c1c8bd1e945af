"""Parquet tables to which both sides of a merge add files, with the same types or others."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Repository
from sparklake.documents import preview_document
from sparklake.errors import MergeConflictError
from sparklake.testing.lakes import contents, memory_lake
from sparklake.verbs.merges import table_schemas

TABLE = "tables/x"


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [value] for name, value in columns.items()}), sink)
    return sink.getvalue()


NUMBER, TEXT = parquet(id=1, price=1.5), parquet(id=1, price="1.50")
WIDER = parquet(id=1, price=1.5, currency="EUR")


@pytest.fixture(params=[2, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    lake = memory_lake()
    return lake.create_repository("lake", str(tmp_path / "namespace"), range_records=request.param)


@pytest.fixture
def sides(repo: Repository) -> tuple[Branch, Branch]:
    """Return dev and main, which have a table, and many other objects around it."""
    main = repo.branch("main")
    others = {f"{folder}/{number}": b"x" for folder in ("a", "z") for number in range(20)}
    main.put_many(others | {f"{TABLE}/day=5/{number}.parquet": NUMBER for number in range(20)})
    main.commit("table")
    return repo.create_branch("dev", "main"), main


def commit(branch: Branch, **files: bytes) -> None:
    branch.put_many({f"{TABLE}/{name}": body for name, body in files.items()})
    branch.commit(f"more on {branch.name}")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the files whose footers are read."""
    found: list[str] = []
    read = table_schemas.find_file_types

    def counted(file: Any, ref: str) -> Any:
        found.append(file.path)
        return read(file, ref)

    monkeypatch.setattr(table_schemas, "find_file_types", counted)
    return found


PLACES = {
    "side by side": ("day=5/9a.parquet", "day=5/9b.parquet"),
    "in other partitions": ("day=1/a.parquet", "day=9/b.parquet"),
    "the other way round": ("day=9/a.parquet", "day=1/b.parquet"),
    "without partition": ("a.parquet", "zz.parquet"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("strategy", [None, "source-wins", "dest-wins"])
def test_other_types_are_a_conflict(
    repo: Repository, sides: tuple[Branch, Branch], place: str, strategy: str | None
) -> None:
    dev, main = sides
    ours, theirs = PLACES[place]
    commit(dev, **{ours: TEXT})
    commit(main, **{theirs: NUMBER})
    before = contents(repo, "main")
    words = r"'tables/x/', with different types in source and dest: price \(string, double\)"
    with pytest.raises(MergeConflictError, match=words) as caught:
        repo.merge("dev", "main", strategy)
    assert "--no-schema-check" in str(caught.value)
    (row,) = caught.value.conflicts
    assert (row.path, caught.value.count) == (f"{TABLE}/{ours}", 1)
    assert contents(repo, "main") == before
    said = preview_document(repo.preview_merge("dev", "main", strategy))
    assert (said["count"], said["unresolved"]) == (1, 1)
    assert "price (string, double)" in said["conflicts"][0]["reason"]
    assert repo.preview_merge("dev", "main", strategy, schema_check=False).unresolved == 0
    repo.merge("dev", "main", strategy, schema_check=False)
    assert contents(repo, "main") == {**before, f"{TABLE}/{ours}": TEXT}


@pytest.mark.parametrize("place", PLACES)
def test_equal_types_and_new_columns_are_merged(
    repo: Repository, sides: tuple[Branch, Branch], place: str, reads: list[str]
) -> None:
    dev, main = sides
    ours, theirs = PLACES[place]
    commit(dev, **{ours: WIDER})
    commit(main, **{theirs: NUMBER})
    repo.merge("dev", "main")
    assert sorted(reads) == sorted(f"{TABLE}/{name}" for name in (ours, theirs))


@pytest.mark.parametrize(
    ("ours", "theirs", "columns"),
    [
        ("a.parquet", "day=9/b.parquet", "none and day"),
        ("hour=1/a.parquet", "day=9/b.parquet", "hour and day"),
        ("day=1/hour=1/a.parquet", "day=9/b.parquet", "day, hour and day"),
    ],
)
def test_other_partition_columns_are_a_conflict(
    repo: Repository, sides: tuple[Branch, Branch], ours: str, theirs: str, columns: str
) -> None:
    dev, main = sides
    old = [f"{TABLE}/day=5/{number}.parquet" for number in range(20)]
    for each in old:
        dev.delete(each)
    commit(dev, **{ours: NUMBER})
    commit(main, **{theirs: NUMBER})
    before, head = contents(repo, "main"), main.head.id
    words = f"partition columns in source and dest: {columns}. The merged table could not be read"
    with pytest.raises(MergeConflictError, match=words):
        repo.merge("dev", "main", "keep-both")
    assert repo.preview_merge("dev", "main").unresolved == 1
    repo.merge("dev", "main", rules={f"{TABLE}/**": "dest-wins"})
    assert contents(repo, "main") == before
    main.hard_reset(head)
    repo.merge("dev", "main", rules={f"{TABLE}/**": "source-wins"})
    assert {each for each in contents(repo, "main") if TABLE in each} == {f"{TABLE}/{ours}"}
    # The way on of the message: the new rows of the other side, written again.
    commit(main, **{ours.replace("a.parquet", "again.parquet"): NUMBER})


def test_the_case_of_partition_columns_does_not_matter(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    commit(dev, **{"DAY=1/a.parquet": NUMBER})
    commit(main, **{"day=9/b.parquet": NUMBER})
    assert repo.preview_merge("dev", "main").unresolved == 0


def test_a_table_that_one_side_replaces_beside_an_append(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    for number in range(20):
        dev.delete(f"{TABLE}/day=5/{number}.parquet")
    commit(dev, **{"day=5/new.parquet": TEXT})
    commit(main, **{"day=5/old.parquet": NUMBER})
    with pytest.raises(MergeConflictError, match="both sides added files"):
        repo.merge("dev", "main")


def test_a_partition_that_one_side_rewrites_beside_an_append(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    names = [f"day=5/{number}.parquet" for number in range(10, 16)]
    for name in names:
        dev.delete(f"{TABLE}/{name}")
    commit(dev, **{f"{name}.parquet": TEXT for name in names})
    commit(main, **{"day=9/new.parquet": NUMBER})
    with pytest.raises(MergeConflictError, match="both sides added files"):
        repo.merge("dev", "main")


def test_no_footer_is_read_without_additions_of_both(
    repo: Repository, sides: tuple[Branch, Branch], reads: list[str]
) -> None:
    dev, main = sides

    def leave_out(branch: Branch) -> None:
        for number in range(15):
            branch.delete(f"{TABLE}/day=5/{number}.parquet")
        branch.commit("fewer")

    changes: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: commit(dev, **{"day=5/a.parquet": TEXT}), lambda: leave_out(main)),
        (
            lambda: commit(dev, **{"sub/a.parquet": TEXT, "_tmp/a.parquet": TEXT, "a.txt": TEXT}),
            lambda: commit(main, **{"b.txt": TEXT, ".b.parquet": NUMBER, "day=5/b.csv": NUMBER}),
        ),
    ]
    for in_dev, in_main in changes:
        in_dev()
        in_main()
        repo.merge("dev", "main")
        assert reads == []
        dev.hard_reset("main")


ADDED = {"day=5/0a.parquet": NUMBER}
OVERWRITTEN = {f"day=5/{number}.parquet": WIDER for number in range(0, 200, 3)}


@pytest.mark.parametrize(
    ("in_dev", "in_main", "maximum"),
    [
        (ADDED, {"day=5/99.parquet": WIDER}, 0),
        (ADDED, {"day=1/a.parquet": NUMBER, "day=9/b.txt": b"x"}, table_schemas.MAX_UNREAD_RANGES),
        ({"day=1/a.txt": b"x"}, {"day=9/b.parquet": TEXT}, 0),
        # A task reads what both have changed, so it has a sample of one side.
        ({**ADDED, **OVERWRITTEN}, {"day=5/0.parquet": WIDER}, 0),
        (ADDED, OVERWRITTEN, table_schemas.MAX_UNREAD_RANGES),
    ],
)
def test_few_ranges_are_read_besides_those_of_tasks(
    tmp_path: Path, in_dev: dict[str, bytes], in_main: dict[str, bytes], maximum: int
) -> None:
    lake = memory_lake()
    repo = lake.create_repository("lake", str(tmp_path), range_records=2)
    main = repo.branch("main")
    commit(main, **{f"day=5/{number}.parquet": NUMBER for number in range(200)})
    dev = repo.create_branch("dev", "main")
    commit(dev, **in_dev)
    commit(main, **in_main)

    def ranges_read(schema_check: bool) -> set[str]:
        with recorded_reads() as names:
            lake.repository("lake").preview_merge("dev", "main", schema_check=schema_check)
        return {*names}

    assert len(ranges_read(True) - ranges_read(False)) <= maximum


@pytest.mark.parametrize(
    "marker", [f"{TABLE}/_delta_log/{0:020}.json", f"{TABLE}/metadata/v1.metadata.json"]
)
def test_a_table_with_its_own_log_is_not_compared(
    repo: Repository, sides: tuple[Branch, Branch], reads: list[str], marker: str
) -> None:
    dev, main = sides
    main.put(marker, b"{}")
    main.commit("a log")
    dev.hard_reset("main")
    commit(dev, **{"day=5/a.parquet": TEXT, "Xy/a.parquet": TEXT})
    commit(main, **{"day=5/b.parquet": NUMBER, "Xy/b.parquet": NUMBER})
    repo.merge("dev", "main")
    assert reads == []


def test_files_at_the_root_are_a_table(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    for branch, body in zip(sides, (TEXT, NUMBER), strict=True):
        branch.put(f"{branch.name}.parquet", body)
        branch.commit("at the root")
    with pytest.raises(MergeConflictError, match="the table ''"):
        repo.merge("dev", "main")


def test_what_is_not_parquet_is_merged(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    dev, main = sides
    commit(dev, **{"a.parquet": b"no footer"})
    commit(main, **{"b.parquet": NUMBER})
    repo.merge("dev", "main")


def test_replays_compare_as_well(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    dev, main = sides
    commit(dev, **{"day=5/a.parquet": TEXT})
    commit(main, **{"day=5/b.parquet": NUMBER})
    for act in (lambda **more: main.cherry_pick("dev", **more), lambda **more: dev.rebase("main")):
        with pytest.raises(MergeConflictError, match="both sides added files"):
            act()
    main.cherry_pick("dev", schema_check=False)
    main.revert("main")


def test_only_chosen_paths_are_compared(
    repo: Repository, sides: tuple[Branch, Branch], reads: list[str]
) -> None:
    dev, main = sides
    commit(dev, **{"day=5/a.parquet": TEXT})
    dev.put("b/1", b"x")
    dev.commit("beside it")
    commit(main, **{"day=5/b.parquet": NUMBER})
    repo.merge("dev", "main", paths=["b/"])
    assert reads == []
    with pytest.raises(MergeConflictError, match="both sides added files"):
        repo.merge("dev", "main", paths=[f"{TABLE}/day=5/"])
