"""Branches that changed rows of one file, merged by key, on real Delta tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Branch, MergeConflictError, Repository
from sparklake.strategies import rows
from sparklake.verbs.merges import merge as merges
from sparklake.verbs.tables import unions
from tests.support.lakes import moved_away

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINE = "auto"
pytestmark = pytest.mark.spark

T = "tables/t"
RULES = {f"{T}/": rows("id")}
Rows = list[tuple[Any, ...]]


@pytest.fixture
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(*ids: int) -> DataFrame:
        data = [(each, f"name {each}", each * 10) for each in ids]
        return spark.createDataFrame(data, "id bigint, name string, v int").coalesce(1)

    return make


@pytest.fixture
def edit(spark: SparkSession) -> Callable[..., None]:
    def change(branch: Branch, *statements: str) -> None:
        with branch.edit_delta(T) as location:
            for each in statements:
                spark.sql(each.format(t=f"delta.`{location}`")).collect()
        branch.commit("; ".join(statements)[:100])

    return change


def started(repo: Repository, rows_of: DataFrame, **properties: str) -> tuple[Branch, Branch]:
    main = repo.branch("main")
    main.write(rows_of, T, "delta", **properties)
    main.commit("created the table")
    return repo.create_branch("dev", "main"), main


def at(repo: Repository, ref: str) -> Rows:
    return sorted(map(tuple, repo.read(ref, T).collect()))


def files_of(repo: Repository, ref: str) -> list[str]:
    return [each.path for each in repo.objects(ref, f"{T}/part-")]


def test_rows_merge_without_reading_other_files(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = started(repo, frame(100, 101))
    (untouched,) = files_of(repo, "main")
    main.write(frame(*range(1, 7)), T, "delta", mode="append")
    main.commit("more rows")
    repo.delete_branch("dev")
    dev = repo.create_branch("dev", "main")
    edit(
        dev,
        "UPDATE {t} SET v = 0 WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (20, 'theirs', 2), (22, 'both', 2)",
        "UPDATE {t} SET v = 7 WHERE id = 3",
    )
    edit(
        main,
        "UPDATE {t} SET name = 'ours' WHERE id = 4",
        "DELETE FROM {t} WHERE id = 5",
        "INSERT INTO {t} VALUES (21, 'ours', 2), (22, 'both', 2)",
        "UPDATE {t} SET v = 7 WHERE id = 3",
    )
    with pytest.raises(MergeConflictError, match="removed or rewrote files"):
        repo.merge("dev", "main")
    with moved_away(repo, "main", [untouched]):
        preview = repo.preview_merge("dev", "main", rules=RULES).row_merges[T]
        merged = repo.merge("dev", "main", rules=RULES)
    counts = (preview.added, preview.changed, preview.removed, preview.conflicts)
    assert counts == (1, 1, 1, 0)
    assert preview.bytes
    assert merged.metadata["sparklake.merge.rows"] == f"{T}: 1 added, 1 changed, 1 removed"
    assert at(repo, "main") == [
        (1, "name 1", 0),
        (3, "name 3", 7),
        (4, "ours", 40),
        (6, "name 6", 60),
        (20, "theirs", 2),
        (21, "ours", 2),
        (22, "both", 2),
        (100, "name 100", 1000),
        (101, "name 101", 1010),
    ]
    # Both go on: an append of source is merged as files, and only once.
    dev.write(frame(30), T, "delta", mode="append")
    dev.commit("one more row")
    assert "sparklake.merge.rows" not in repo.merge("dev", "main", rules=RULES).metadata
    assert [each[0] for each in at(repo, "main")].count(30) == 1


@pytest.mark.system
def test_conflicting_rows_stop_a_merge(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = started(repo, frame(1, 2, 3))
    edit(dev, "UPDATE {t} SET v = 5, name = 'theirs' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    edit(main, "UPDATE {t} SET v = 6 WHERE id IN (1, 2)")
    head = main.head
    with pytest.raises(
        MergeConflictError, match=r'2 rows differently, such as \{"id":1\}'
    ) as raised:
        repo.merge("dev", "main", rules=RULES)
    assert main.head == head
    listed = {json.loads(each.key)["id"]: each for each in raised.value.conflict_rows.collect()}
    assert (listed[1].table, listed[1].column) == (T, None)
    assert [json.loads(getattr(listed[1], each))["v"] for each in ("base", "source", "dest")] == [
        *(10, 5, 6)
    ]
    assert listed[2].source is None
    preview = repo.preview_merge("dev", "main", rules=RULES)
    assert (preview.row_merges[T].conflicts, preview.unresolved > 0) == (2, True)
    cells = repo.merge_conflicts("dev", "main", T, rows("id", columns=True)).collect()
    assert sorted((each.key.id, each.column, each.source) for each in cells) == [
        (1, "v", "5"),
        (2, None, None),
    ]
    repo.merge("dev", "main", rules={f"{T}/": rows("id", columns=True, then="dest-wins")})
    assert at(repo, "main") == [(1, "theirs", 6), (2, "name 2", 6), (3, "name 3", 30)]


@pytest.mark.system
def test_keys_are_checked_by_name(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    _, main = started(repo, frame(1, 2, 2))
    edit(main, "ALTER TABLE {t} SET TBLPROPERTIES ('sparklake.key' = 'id')")
    repo.delete_branch("dev")
    dev = repo.create_branch("dev", "main")
    edit(dev, "UPDATE {t} SET v = 5 WHERE id = 1")
    edit(main, "UPDATE {t} SET v = 6 WHERE id = 2")
    with pytest.raises(MergeConflictError, match='"id":2'):
        repo.merge("dev", "main", rules={f"{T}/": "rows()"})
    with pytest.raises(MergeConflictError, match="no column 'nothing'"):
        repo.merge("dev", "main", rules={f"{T}/": "rows(nothing)"})
    with pytest.raises(MergeConflictError, match="repeated"):
        repo.merge("dev", "main", rules={f"{T}/": "rows(id, name)"})


def numbered(repo: Repository) -> dict[int, int]:
    """Return the row id of each key on main."""
    table = repo.read("main", T).select("id", "_metadata.row_id")
    return {row.id: row.row_id for row in table.collect()}


@pytest.mark.system
def test_mapped_columns_row_ids_timestamps_and_a_new_column(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    names = ("enableRowTracking", "enableInCommitTimestamps", "enableDeletionVectors")
    properties = {**{f"delta.{each}": "true" for each in names}, "delta.columnMapping.mode": "name"}
    dev, main = started(repo, frame(1, 2, 3, 4), **properties)
    edit(
        dev,
        "ALTER TABLE {t} ADD COLUMN extra int",
        "UPDATE {t} SET extra = 1 WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
    )
    edit(main, "UPDATE {t} SET v = 0 WHERE id = 1", "INSERT INTO {t} VALUES (9, 'ours', 9)")
    ids = numbered(repo)
    repo.merge("dev", "main", rules={f"{T}/": "rows(id, columns=true)"})
    assert at(repo, "main") == [
        (1, "name 1", 0, 1),
        (3, "name 3", 30, None),
        (4, "name 4", 40, None),
        (9, "ours", 9, None),
    ]
    assert numbered(repo) == {key: each for key, each in ids.items() if key != 2}
    times = [
        json.loads(line)["commitInfo"]["inCommitTimestamp"]
        for each in sorted(row.path for row in repo.objects("main", f"{T}/_delta_log/"))
        if each.endswith(".json")
        for line in repo.read_bytes("main", each).splitlines()
        if b"commitInfo" in line
    ]
    assert times == sorted({*times})


@pytest.mark.system
def test_cherry_picked_rows(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = started(repo, frame(1, 2))
    edit(dev, "UPDATE {t} SET v = 5 WHERE id = 1")
    edit(main, "UPDATE {t} SET name = 'ours' WHERE id = 1")
    with pytest.raises(MergeConflictError, match="1 row differently"):
        main.cherry_pick("dev", rules=RULES)
    main.cherry_pick("dev", rules={f"{T}/": "rows(id, columns=true)"})
    assert at(repo, "main") == [(1, "ours", 5), (2, "name 2", 20)]


@pytest.mark.system
def test_renamed_columns_are_merged_and_dropped_ones_reverted_before(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = started(repo, frame(1, 2), **{"delta.columnMapping.mode": "name"})
    edit(dev, "UPDATE {t} SET v = 5 WHERE id = 1")
    edit(main, "UPDATE {t} SET v = 6 WHERE id = 2")
    edit(main, "ALTER TABLE {t} DROP COLUMN v")
    with pytest.raises(MergeConflictError, match=r"dest dropped the .*: revert that commit"):
        repo.merge("dev", "main", rules=RULES)
    main.revert("main")
    edit(main, "ALTER TABLE {t} RENAME COLUMN name TO title")
    repo.merge("dev", "main", rules=RULES)
    assert at(repo, "main") == [(1, "name 1", 5), (2, "name 2", 6)]
    assert repo.read("main", T).columns == ["id", "title", "v"]


def diverged(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> tuple[Branch, Branch]:
    """Change rows of a table with a change feed on two branches."""
    names = ("enableChangeDataFeed", "enableDeletionVectors")
    dev, main = started(repo, frame(*range(1, 7)), **{f"delta.{each}": "true" for each in names})
    edit(dev, "UPDATE {t} SET v = 0 WHERE id = 1", "DELETE FROM {t} WHERE id IN (2, 6)")
    edit(main, "UPDATE {t} SET name = 'ours' WHERE id = 3", "DELETE FROM {t} WHERE id = 6")
    return dev, main


@pytest.mark.system
def test_the_change_feed_has_the_merged_rows(
    repo: Repository,
    frame: Callable[..., DataFrame],
    edit: Callable[..., None],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    _, main = diverged(repo, frame, edit)
    before = at(repo, "main")
    merged = repo.merge("dev", "main", rules=RULES)
    result = [(1, "name 1", 0), (3, "ours", 30), (4, "name 4", 40), (5, "name 5", 50)]
    assert at(repo, "main") == result
    feed = repo.export("main", str(tmp_path / "exported"))
    assert feed is not None
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    last = changes.option("startingVersion", 3).load(f"{tmp_path}/exported/{T}").collect()
    assert sorted((each.id, each["_change_type"]) for each in last) == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (2, "delete"),
    ]
    main.revert(merged.id, parent_number=1, rules=RULES)
    assert at(repo, "main") == before


@pytest.mark.exhaustive
def test_later_merges_in_both_directions(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = diverged(repo, frame, edit)
    before = at(repo, "main")
    merged = repo.merge("dev", "main", rules=RULES)
    edit(dev, "UPDATE {t} SET v = 1 WHERE id = 4")
    edit(main, "UPDATE {t} SET v = 2 WHERE id = 5")
    repo.merge("main", "dev", rules=RULES)
    repo.merge("dev", "main", rules=RULES)
    result = [(1, "name 1", 0), (3, "ours", 30), (4, "name 4", 1), (5, "name 5", 2)]
    assert at(repo, "main") == at(repo, "dev") == result
    # A revert of the merge gives dest's rows back, beside later changes.
    main.revert(merged.id, parent_number=1, rules=RULES)
    later = {4: ("name 4", 1), 5: ("name 5", 2)}
    assert at(repo, "main") == [
        (id_, *later[id_]) if id_ in later else (id_, name, v) for id_, name, v in before
    ]


@pytest.mark.system
def test_lost_races_and_crashes(
    repo: Repository,
    frame: Callable[..., DataFrame],
    edit: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dev, main = started(repo, frame(1, 2, 3))
    edit(dev, "UPDATE {t} SET v = 5 WHERE id = 1")
    edit(main, "UPDATE {t} SET v = 6 WHERE id = 2")
    head, rows_before = main.head, at(repo, "main")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(merges, "publish", crash)
        with pytest.raises(KeyboardInterrupt):
            repo.merge("dev", "main", rules=RULES)
    assert (main.head, at(repo, "main")) == (head, rows_before)
    runs, real = [], unions.merge_rows

    def raced(table: Any, **options: Any) -> Any:
        runs.append(table.folder)
        merged = real(table, **options)
        if len(runs) == 1:
            edit(main, "UPDATE {t} SET v = 7 WHERE id = 3")
        elif len(runs) == 2:
            main.put("other", b"object")
            main.commit("another object")
        return merged

    monkeypatch.setattr(unions, "merge_rows", raced)
    repo.merge("dev", "main", rules=RULES)
    # The table changed once, so its rows were merged twice; the other commit reused them.
    assert len(runs) == 2
    assert at(repo, "main") == [(1, "name 1", 5), (2, "name 2", 6), (3, "name 3", 7)]


@pytest.mark.system
def test_merge_bases_that_disagree_on_a_table(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    dev, main = started(repo, frame(1, 2))
    edit(dev, "INSERT INTO {t} VALUES (10, 'dev', 0)")
    edit(main, "INSERT INTO {t} VALUES (11, 'main', 0)")
    x, y = repo.create_branch("x", "dev"), repo.create_branch("y", "main")
    repo.merge("main", "x")
    repo.merge("dev", "y")
    rows_before = at(repo, "y")
    assert at(repo, "x") == rows_before
    # Commits to different files are repeated, whichever the base.
    edit(x, "INSERT INTO {t} VALUES (20, 'x', 0)")
    edit(y, "INSERT INTO {t} VALUES (21, 'y', 0)")
    repo.create_branch("united", "y")
    repo.merge("x", "united")
    both = [*rows_before, (20, "x", 0), (21, "y", 0)]
    assert at(repo, "united") == both
    repo.create_branch("with-rule", "y")
    repo.merge("x", "with-rule", rules=RULES)
    assert at(repo, "with-rule") == both
    # The way on that the message names: rows by key.
    edit(x, "UPDATE {t} SET v = 5 WHERE id IN (1, 10)")
    edit(y, "UPDATE {t} SET v = 6 WHERE id = 2")
    with pytest.raises(MergeConflictError, match=rf"--rule '{T}/=rows\(KEY\)'"):
        repo.merge("x", "y")
    # The bases disagree on key 10, so nobody knows which side changed it.
    with pytest.raises(MergeConflictError, match=r"such as rows\(id, then=source-wins\)") as raised:
        repo.merge("x", "y", rules=RULES)
    assert [each.key for each in raised.value.conflict_rows.collect()] == ['{"id":10}']
    repo.merge("x", "y", rules={f"{T}/": "rows(id, then=source-wins)"})
    expected = {row[0]: row for row in both} | {1: (1, "name 1", 5), 2: (2, "name 2", 6)}
    expected[10] = (10, "dev", 5)
    assert at(repo, "y") == sorted(expected.values())


@pytest.mark.system
def test_keys_are_unique_whatever_the_files(
    repo: Repository, frame: Callable[..., DataFrame], edit: Callable[..., None]
) -> None:
    """Two upserts insert one new key, and rewrite different files."""
    main = repo.branch("main")
    for each in (1, 2):
        main.write(frame(each), T, "delta", mode="append")
    main.commit("two files")
    dev = repo.create_branch("dev", "main")
    upsert = (
        "MERGE INTO {{t}} t USING (SELECT {0} AS id, '{1}' AS name, 0 AS v UNION ALL "
        "SELECT 9, '{1}', 9{0}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    edit(dev, upsert.format(1, "dev"))
    edit(main, upsert.format(2, "main"))
    assert repo.preview_merge("dev", "main", rules=RULES).row_merges[T].conflicts == 1
    with pytest.raises(MergeConflictError, match=r'1 row differently, such as \{"id":9\}'):
        repo.merge("dev", "main", rules=RULES)
    repo.merge("dev", "main", rules={f"{T}/": "rows(id, then=source-wins)"})
    assert at(repo, "main") == [(1, "dev", 0), (2, "main", 0), (9, "dev", 91)]
