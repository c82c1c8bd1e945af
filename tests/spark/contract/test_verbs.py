"""The verbs as Spark jobs: what they make is what this process makes, on both kinds of Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality

from sparklake import (
    Branch,
    Commit,
    DiffRow,
    MergeConflictError,
    ObjectInfo,
    Repository,
    ThreeWayRow,
)
from sparklake.engine.base import MAX_TASK_RECORDS
from sparklake.engine.ddl import spark_ddl
from sparklake.engine.spark import SparkRunner
from sparklake.errors import CorruptFileError, InvalidRowsError, MissingFileError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.planning.packing import pack_tasks
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.rows.diffs import DIFF_SCHEMA
from sparklake.rows.objects import OBJECT_SCHEMA, STAGE_SCHEMA
from sparklake.rows.settings import Workspace
from sparklake.udfs.tasks import encode_tasks
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs import commits
from sparklake.verbs.base import staging as staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STAGE_DDL = spark_ddl(STAGE_SCHEMA)
TWO_O_CLOCK = datetime(2024, 7, 1, 2, 0, 0, 123456, tzinfo=timezone.utc)

Contents = dict[str, str]


def checksum_of(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def without_times(row: ThreeWayRow) -> ThreeWayRow:
    """Return a row whose objects and commits are as young as those of another lake."""
    objects: dict[str, Any] = {
        side: found and replace(found, mtime=0)
        for side, found in (("base", row.base), ("source", row.source), ("dest", row.dest))
    }
    commits = {
        side: found and replace(found, id=CommitId(found.message), parents=(), creation_date=0)
        for side, found in (("source_commit", row.source_commit), ("dest_commit", row.dest_commit))
    }
    return replace(row, **objects, **commits)


def to_stage(changes: dict[str, str | None]) -> pa.Table:
    """Return changes of contents, None for a removal, as a table to stage."""
    rows = [
        {"path": path, "deleted": True}
        if text is None
        else {
            "path": path,
            "size": len(text),
            "address": f"data/{path}",
            "checksum": checksum_of(text),
            "mtime": TWO_O_CLOCK,
            "metadata": [("of", text)],
            "deleted": False,
        }
        for path, text in changes.items()
    ]
    return pa.Table.from_pylist(rows, schema=STAGE_SCHEMA)


def frame_of(spark: SparkSession, table: pa.Table, ddl: str) -> DataFrame:
    """Return the rows of an Arrow table, of which Spark 3.5 makes no DataFrame itself."""
    rows = table.to_pylist(maps_as_pydicts="strict")
    return spark.createDataFrame([tuple(each.values()) for each in rows], ddl)


def tree_of(prefix: str, files: int) -> Contents:
    return {f"{prefix}/{number:03d}.csv": f"{prefix} {number}" for number in range(files)}


def checksums(objects: Iterable[ObjectInfo]) -> Contents:
    return {each.path: each.checksum for each in objects}


def of_contents(contents: Contents) -> Contents:
    return {path: checksum_of(text) for path, text in contents.items()}


# --- the same on every engine ---------------------------------------------------------------------


@dataclass
class History:
    """What a few verbs made of a repository: ids of trees, and rows."""

    trees: dict[str, str] = field(default_factory=dict)
    rows: dict[str, list[Any]] = field(default_factory=dict)

    def tree(self, name: str, commit: Commit) -> Commit:
        self.trees[name] = commit.meta_range_id
        return commit


# Scattered over all ranges and bunched in a few; some changed on both sides, in equal ways or not.
OURS: dict[str, str | None] = {
    **{f"bulk/{number:03d}.csv": "ours" for number in range(0, 300, 7)},
    **{f"bulk/{number:03d}.csv": None for number in range(100, 120)},
    **{f"bulk/new-{number:03d}.csv": "both added" for number in range(30)},
    "bulk/250.csv": "both changed",
}
THEIRS: dict[str, str | None] = {
    **{f"bulk/{number:03d}.csv": "theirs" for number in range(3, 300, 11)},
    **{f"bulk/{number:03d}.csv": None for number in range(110, 130)},
    **{f"bulk/new-{number:03d}.csv": "both added" for number in range(15, 40)},
    "bulk/250.csv": "both changed",
    "aaa/first": "before all",
}


def live(repository: Repository, source: Path) -> History:
    """Import, stage in bulk and one by one, commit, compare and merge."""
    made = History()
    main = repository.branch("main")
    made.tree("imported", main.import_objects(str(source), "raw/sub").commit)
    main.stage(to_stage(dict(tree_of("bulk", 300))))
    base = made.tree("staged", main.commit("bulk"))
    ours, theirs = (repository.create_branch(name, "main") for name in ("ours", "theirs"))
    ours.stage(to_stage(OURS))
    for path, text in THEIRS.items():
        put_or_delete(theirs, path, text)
    theirs.delete_prefix("raw/sub/b")
    ours.delete_prefix("there is no such thing/")
    made.rows["uncommitted"] = list(theirs.diff())
    made.rows["listing with staged changes"] = sorted(checksums(repository.objects("ours")).items())
    made.tree("ours", ours.commit("ours"))
    made.tree("theirs", theirs.commit("theirs"))
    made.rows["diff"] = list(repository.diff(base.id, "ours"))
    made.rows["diff below a prefix"] = list(repository.diff(base.id, "theirs", prefix="raw/"))
    three_way = repository.diff("ours", "theirs", three_way=True)
    made.rows["three-way"] = list(map(without_times, three_way))
    with pytest.raises(MergeConflictError) as raised:
        repository.merge("theirs", "ours")
    made.rows["conflicts"] = list(map(without_times, raised.value.conflicts))
    for strategy in ("source-wins", "dest-wins"):
        dest = repository.create_branch(strategy, "ours")
        merged = repository.merge("theirs", dest.name, strategy)
        made.tree(strategy, merged)
        made.rows[strategy] = list(checksums(repository.objects(dest.name)).items())
    return made


def put_or_delete(branch: Branch, path: str, text: str | None) -> None:
    if text is None:
        branch.delete(path)
    else:
        branch.put(path, text.encode(), metadata={"of": text})  # a part of its identity


@pytest.mark.connect
def test_spark_makes_the_same_trees_and_rows_as_this_process(
    make_twins: tuple[Repository, Repository],
    small_tasks: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged, "INLINE_ROWS", 20)  # so that Spark writes them as a run
    source = tmp_path / "source"
    imported = {**tree_of("a", 30), **tree_of("b/deep", 30)}
    for path, text in imported.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    on_spark, here = (live(each, source) for each in make_twins)
    assert on_spark.trees == here.trees
    assert on_spark.rows == here.rows

    before = of_contents(
        {**{f"raw/sub/{path}": text for path, text in imported.items()}, **tree_of("bulk", 300)}
    )
    ours, theirs = (changed(before, changes) for changes in (OURS, THEIRS))
    theirs = {path: each for path, each in theirs.items() if not path.startswith("raw/sub/b")}
    conflicts = {row.path for row in on_spark.rows["conflicts"]}
    assert conflicts == {
        path
        for path in {*before, *ours, *theirs}
        if len({before.get(path), ours.get(path), theirs.get(path)}) == 3
    }
    for strategy, winner in (("source-wins", theirs), ("dest-wins", ours)):
        assert dict(on_spark.rows[strategy]) == merged_by_hand(before, theirs, ours, winner)


def changed(before: Contents, changes: dict[str, str | None]) -> Contents:
    after = {**before, **of_contents({path: text for path, text in changes.items() if text})}
    return {path: each for path, each in after.items() if changes.get(path, "") is not None}


def merged_by_hand(base: Contents, source: Contents, dest: Contents, winner: Contents) -> Contents:
    merged = {}
    for path in {*base, *source, *dest}:
        sides = [side.get(path) for side in (base, source, dest)]
        kept = winner.get(path)
        if sides[1] == sides[0]:
            kept = sides[2]
        elif sides[2] in (sides[0], sides[1]):
            kept = sides[1]
        if kept is not None:
            merged[path] = kept
    return merged


def run_twice(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], path_filter: PathFilter
) -> Iterator[pa.RecordBatch]:
    """Is a task that Spark runs again when it had all but finished."""
    given = list(batches)
    assert list(apply_body(workspace, given, path_filter)), "the first run, of which nobody hears"
    yield from apply_body(workspace, given, path_filter)


def test_a_task_that_runs_again_makes_the_same_tree(
    make_twins: tuple[Repository, Repository], small_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, changes = [], dict.fromkeys(list(tree_of("bulk", 200))[::7], "changed")
    for repository, body in zip(make_twins, (run_twice, apply_body), strict=True):
        monkeypatch.setattr(commits, "apply_body", body)
        main = repository.branch("main")
        main.stage(to_stage(dict(tree_of("bulk", 200))))
        main.commit("bulk")
        main.stage(to_stage(changes))
        assert main.plan().opened, "what is staged reaches into ranges, which tasks write anew"
        ids.append(main.commit("more").meta_range_id)
    assert ids[0] == ids[1]
    expected = {**tree_of("bulk", 200), **changes}
    assert checksums(make_twins[0].objects("main")) == of_contents(expected)


@pytest.mark.system
def test_a_task_that_runs_beside_itself_makes_the_same_ranges(
    repo: Repository, runner: SparkRunner
) -> None:
    main = repo.branch("main")
    main.stage(to_stage(dict(tree_of("bulk", 40))))
    base = main.commit("bulk")
    rows = repo.objects(base.id)
    work = encode_tasks(pack_tasks(rows.plan, MAX_TASK_RECORDS))
    twice = pa.concat_tables([work, work])
    workspace = repo._context.workspace
    (once,) = apply_body(workspace, work.to_batches())
    first, second = runner.collect(Partial(apply_body, workspace), twice)
    assert first == second == once
    assert repo.resolve("main").meta_range_id == base.meta_range_id


@dataclass(frozen=True)
class Partial:
    """A body with its workspace, as `functools.partial` is."""

    body: Any
    workspace: Workspace

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.body(self.workspace, batches)


# --- bulk staging ---------------------------------------------------------------------------------


@pytest.mark.connect
def test_a_data_frame_is_staged_as_an_arrow_table_is(
    make_twins: tuple[Repository, Repository], spark: SparkSession
) -> None:
    on_spark, here = make_twins
    table = to_stage({**tree_of("bulk", 100), "gone": None})
    here.branch("main").stage(table)
    frame = frame_of(spark, table, STAGE_DDL).drop("content_type")
    on_spark.branch("main").stage(frame.repartition(3))
    commits = [each.branch("main").commit("bulk") for each in make_twins]
    assert commits[0].meta_range_id == commits[1].meta_range_id
    staged = on_spark.stat("main", "bulk/007.csv")
    assert staged == ObjectInfo(
        path="bulk/007.csv",
        size=6,
        checksum=checksum_of("bulk 7"),
        mtime=int(TWO_O_CLOCK.timestamp()) * 10**9 + 123_456_000,
        address=f"{on_spark.info.storage_namespace}/data/bulk/007.csv",
        metadata={"of": "bulk 7"},
    )


def test_what_a_data_frame_does_not_say_is_found_out(
    repo: Repository, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a b%20é.csv").write_text("some bytes")
    rows = [("x/y.csv", 10, f"file://{tmp_path}/a b%20é.csv")]
    repo.branch("main").stage(spark.createDataFrame(rows, "path string, size long, address string"))
    found = repo.stat("main", "x/y.csv")
    assert found.checksum == checksum_of("some bytes")
    assert repo.read_bytes("main", "x/y.csv") == b"some bytes"


def test_rows_of_which_two_are_of_one_path_are_not_staged(
    repo: Repository, spark: SparkSession
) -> None:
    rows = [("x", 1, "data/x", "c"), ("y", 1, "data/y", "c"), ("x", 2, "data/z", "d")]
    main = repo.branch("main")
    frame = spark.createDataFrame(rows, "path string, size long, address string, checksum string")
    with pytest.raises(InvalidRowsError, match="twice"):
        main.stage(frame)
    assert not main.is_dirty


def test_an_object_that_has_vanished_is_not_staged(repo: Repository, tmp_path: Path) -> None:
    main = repo.branch("main")
    gone = {"path": "x", "size": 1, "address": f"file://{tmp_path}/gone.csv"}
    schema = pa.schema([STAGE_SCHEMA.field(name) for name in gone])
    with pytest.raises(MissingFileError, match=r"gone\.csv"):
        main.stage(pa.Table.from_pylist([gone], schema=schema))
    assert not main.is_dirty


# --- damage ---------------------------------------------------------------------------------------


def test_a_range_that_is_corrupt_or_gone_is_named(repo: Repository, namespace: Path) -> None:
    main = repo.branch("main")
    main.stage(to_stage(dict(tree_of("bulk", 100))))
    first = main.commit("bulk")
    damaged = repo._context.tree(first).ranges[2]
    file = namespace / "_lakefs" / damaged.id
    whole = file.read_bytes()
    main.put(damaged.max_key.decode(), b"changed")
    file.unlink()
    with pytest.raises(MissingFileError, match=damaged.id):
        main.commit("changed")
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptFileError, match=damaged.id):
        list(repo.objects(first.id))
    file.write_bytes(whole)
    assert len(list(main.commit("changed").parents)) == 1


# --- as DataFrames --------------------------------------------------------------------------------


def test_rows_are_the_same_in_a_data_frame(
    repo: Repository, spark: SparkSession, small_tasks: None
) -> None:
    main = repo.branch("main")
    main.stage(to_stage(dict(tree_of("bulk", 200))))
    first = main.commit("bulk")
    main.stage(to_stage({"bulk/007.csv": "changed", "bulk/170.csv": None, "zzz": "added"}))
    second = main.commit("more")

    objects = repo.objects(second.id)
    assert_df_equality(
        objects.to_df(),
        frame_of(spark, objects.to_arrow(), spark_ddl(OBJECT_SCHEMA)),
        ignore_nullable=True,
    )
    collected = [row.path for row in objects.to_df().select("path").collect()]
    assert collected == sorted(collected), "partitions are in the order of keys"
    assert len(collected) == 200

    differences = repo.diff(first.id, second.id)
    expected = [
        ("changed", "bulk/007.csv", 7, checksum_of("bulk 7"), checksum_of("changed")),
        ("removed", "bulk/170.csv", 8, checksum_of("bulk 170"), None),
        ("added", "zzz", 5, None, checksum_of("added")),
    ]
    assert_df_equality(differences.to_df(), spark.createDataFrame(expected, spark_ddl(DIFF_SCHEMA)))
    assert [(row.type.value, row.path) for row in differences] == [row[:2] for row in expected]
    assert all(isinstance(row, DiffRow) for row in differences)


def test_no_rows_are_a_data_frame_of_none(repo: Repository, spark: SparkSession) -> None:
    nothing = repo.objects("main").to_df()
    assert nothing.schema == spark.createDataFrame([], spark_ddl(OBJECT_SCHEMA)).schema
    assert nothing.count() == 0
    assert repo.diff("main", "main").to_df().count() == 0
    assert list(repo.objects("main")) == []
    main = repo.branch("main")
    main.stage(to_stage({}))
    main.stage(spark.createDataFrame([], "path string, size long, address string"))
    assert not main.is_dirty


@pytest.mark.system
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_times_are_right_in_every_time_zone(
    repo: Repository, spark: SparkSession, zone: str
) -> None:
    from pyspark.sql.functions import unix_micros

    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        main = repo.branch("main")
        table = to_stage({"x": "1"})
        main.stage(frame_of(spark, table, STAGE_DDL) if zone != "UTC" else table)
        (row,) = repo.objects("main").to_df().select(unix_micros("mtime").alias("micros")).collect()
        assert row.micros == int(TWO_O_CLOCK.timestamp()) * 1_000_000 + 123_456
        (again,) = repo.objects("main")
        assert again.mtime == row.micros * 1000
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
