"""Rows of one file changed by both branches, merged by key, compared with dictionaries."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.errors import MergeConflictError
from sparklake.strategies import rows
from tests.spark.iceberg.conftest import metadata_of
from tests.spark.iceberg.test_merges import EVERY, TABLE, UPGRADE, change, rows_of, table
from tests.spark.iceberg.test_writes import check_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"
RULES = {f"{TABLE}/": rows("id")}
Rows = dict[int, str]
OPTIONS = {"format-version": 3, "write.merge.mode": "merge-on-read"}

__all__ = ["table"]


def random_change(rng: random.Random, name: str, state: Rows, new: int) -> tuple[str, Rows]:
    """Return a random statement, and the rows after it."""
    some = sorted(rng.sample(sorted(state), 2))
    where = f"WHERE id IN ({', '.join(map(str, some))})"
    kind = rng.choice(("update", "delete", "insert", "rewrite"))
    if kind == "update":
        return f"UPDATE {{}} SET k = '{name}' {where}", {**state, **dict.fromkeys(some, name)}
    if kind == "delete":
        return f"DELETE FROM {{}} {where}", {k: v for k, v in state.items() if k not in some}
    if kind == "insert":
        return f"INSERT INTO {{}} VALUES ({new}, '{name}')", {**state, new: name}
    call = "CALL {0.catalog}.system.rewrite_data_files(table => '{0}', "
    return f"{call}options => map('rewrite-all', 'true'))", state


def three_way(base: Rows, source: Rows, dest: Rows) -> tuple[Rows, set[int]]:
    """Return the merged rows, with dest's in conflicts, and the keys in conflict."""
    merged, conflicts = dict[int, str](), set[int]()
    for key in base.keys() | source.keys() | dest.keys():
        old, theirs, ours = (each.get(key) for each in (base, source, dest))
        value = ours if theirs == old else theirs
        if old not in (theirs, ours) and theirs != ours:
            conflicts.add(key)
            value = ours
        if value is not None:
            merged[key] = value
    return merged, conflicts


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("table", EVERY, indirect=True)
def test_random_changes(table: Repository, spark: SparkSession, seed: int) -> None:
    base = rows_of(table, spark)
    rng, states = random.Random(seed), {}
    for at, branch in enumerate(("dev", "main")):
        states[branch] = {**base, 1: "same"}
        statements = ["UPDATE {} SET k = 'same' WHERE id = 1"]
        for step in range(2):
            name, new = f"{branch}{step}", 100 * (at + 1) + step
            statement, states[branch] = random_change(rng, name, states[branch], new)
            statements.append(statement)
        change(table, spark, branch, *statements)
    expected, conflicts = three_way(base, states["dev"], states["main"])
    rules = RULES
    if conflicts:
        with pytest.raises(MergeConflictError, match=f"{len(conflicts)} row") as raised:
            table.merge("dev", "main", rules=RULES)
        assert raised.value.conflict_rows.count() == len(conflicts)
        rules = {f"{TABLE}/": rows("id", then="dest-wins")}
    merged = table.merge("dev", "main", rules=rules)
    assert "sparklake.merge.rows" in merged.metadata
    assert rows_of(table, spark) == expected


def test_both_sides_go_on(repo: Repository, spark: SparkSession) -> None:
    """A renamed column, a partition transform, row ids and a required key."""
    main = repo.branch("main")
    schema = "id bigint not null, part int, k string"
    data = [(each, each % 2, "x") for each in range(20)]
    main.write(spark.createDataFrame(data, schema).coalesce(1), TABLE, "iceberg", **OPTIONS)
    spec = "ALTER TABLE {} ADD PARTITION FIELD bucket(2, id)"
    change(repo, spark, "main", spec, "ALTER TABLE {} SET TBLPROPERTIES ('sparklake.key'='id')")
    repo.create_branch("dev", "main")
    names = "ALTER TABLE {} RENAME COLUMN k TO name"
    change(repo, spark, "dev", names, "UPDATE {} SET name = 'dev' WHERE id IN (1, 2)")
    change(repo, spark, "main", "UPDATE {} SET k = 'main' WHERE id IN (3, 4)")
    change(
        repo, spark, "main", "INSERT INTO {} VALUES (30, 0, 'main')", "DELETE FROM {} WHERE id = 5"
    )
    before = ids_of(repo, spark)
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main")
    counts = repo.preview_merge("dev", "main", rules={f"{TABLE}/": rows()}).row_merges[TABLE]
    assert (counts.added, counts.changed, counts.removed, counts.conflicts) == (0, 2, 0, 0)
    conflicts = repo.merge_conflicts("dev", "main", TABLE, rows("id"))
    assert conflicts.count() == 0
    merged = repo.merge("dev", "main", rules={f"{TABLE}/": rows()})
    assert merged.metadata["sparklake.merge.rows"] == f"{TABLE}: 0 added, 2 changed, 0 removed"
    expected = {each: (each % 2, "x") for each in range(20) if each != 5}
    expected |= {1: (1, "dev"), 2: (0, "dev"), 3: (1, "main"), 4: (0, "main"), 30: (0, "main")}
    assert {row[0]: row[1:] for row in check_same(repo, spark, "main")} == expected
    assert ids_of(repo, spark) == before
    change(repo, spark, "dev", "INSERT INTO {} VALUES (31, 1, 'later')")
    change(repo, spark, "main", "DELETE FROM {} WHERE id = 1")
    assert "sparklake.merge.rows" not in repo.merge("dev", "main", rules=RULES).metadata
    del expected[1]
    after = {**expected, 31: (1, "later")}
    assert {row[0]: row[1:] for row in check_same(repo, spark, "main")} == after
    # Back into source, where only rows can be merged.
    change(repo, spark, "dev", "INSERT INTO {} VALUES (32, 0, 'dev')")
    repo.merge("main", "dev", rules=RULES)
    assert {row[0]: row[1:] for row in check_same(repo, spark, "dev")} == after | {32: (0, "dev")}


def ids_of(repo: Repository, spark: SparkSession) -> dict[int, int]:
    """Return the row id of each key on main."""
    place = metadata_of(repo, "main", TABLE).address
    table = spark.read.format("iceberg").load(place).select("id", "_row_id")
    return {each[0]: each[1] for each in table.collect()}


@pytest.mark.parametrize("files", [1, 5])
def test_keys_are_unique_whatever_the_files(
    repo: Repository, spark: SparkSession, files: int
) -> None:
    data = spark.range(10).selectExpr("id", "'x' AS k").repartition(files)
    repo.branch("main").write(data, TABLE, "iceberg", **OPTIONS)
    repo.branch("main").commit("created the table")
    base = dict.fromkeys(range(10), "x")
    for name, source, dest, conflicts in (
        ("other", "(30, 'dev')", "(31, 'main')", set()),
        ("equal", "(30, 'same'), (31, 'dev')", "(30, 'same')", set()),
        ("different", "(30, 'dev')", "(30, 'main')", {30}),
    ):
        for branch, values in ((f"dev-{name}", source), (f"main-{name}", dest)):
            repo.create_branch(branch, "main")
            update = f"UPDATE {{}} SET k = '{branch}' WHERE id = {len(branch) % 2}"
            change(repo, spark, branch, f"INSERT INTO {{}} VALUES {values}", update)
        states = [rows_of(repo, spark, f"{each}-{name}") for each in ("dev", "main")]
        expected, keys = three_way(base, *states)
        assert keys == conflicts
        rules = RULES
        if keys:
            with pytest.raises(MergeConflictError, match=r"then=source-wins") as raised:
                repo.merge(f"dev-{name}", f"main-{name}", rules=rules)
            assert {
                json.loads(each.key)["id"] for each in raised.value.conflict_rows.collect()
            } == keys
            rules = {f"{TABLE}/": rows("id", then="dest-wins")}
        merged = repo.merge(f"dev-{name}", f"main-{name}", rules=rules)
        if name != "other":
            assert "sparklake.merge.rows" in merged.metadata
        assert rows_of(repo, spark, f"main-{name}") == expected
    # Twice on one side, in a file that nobody changed.
    for branch, key in (("dev-twice", 7), ("main-twice", 40)):
        repo.create_branch(branch, "main")
        change(repo, spark, branch, f"INSERT INTO {{}} VALUES ({key}, 'x')")
    with pytest.raises(MergeConflictError, match=r"'repeated in source', such as \{\"id\":7\}"):
        repo.merge("dev-twice", "main-twice", rules=RULES)


def test_columns_that_both_sides_wrote_under_one_id(repo: Repository, spark: SparkSession) -> None:
    """Each side adds a column, which gets the same id, and writes its values."""
    data = spark.range(6).selectExpr("id", "'x' AS k").coalesce(1)
    repo.branch("main").write(data, TABLE, "iceberg", **OPTIONS)
    repo.branch("main").commit("created the table")
    repo.create_branch("dev", "main")
    for branch, kind in (("dev", "string"), ("main", "bigint")):
        first = 1 if branch == "dev" else 3
        change(
            repo,
            spark,
            branch,
            f"ALTER TABLE {{}} ADD COLUMN of_{branch} {kind}",
            f"UPDATE {{}} SET of_{branch} = id WHERE id IN ({first}, {first + 1})",
            f"INSERT INTO {{}} VALUES ({first + 10}, 'new', CAST(7 AS {kind}))",
        )
    repo.create_branch("keyless", "main")
    with pytest.raises(MergeConflictError, match=r"the column id 3 to different.*rows\(KEY\)"):
        repo.merge("dev", "keyless")
    repo.merge("dev", "main", rules=RULES)

    def values(ref: str = "main") -> dict[int, tuple[object, object]]:
        rows = repo.read(ref, TABLE).select("id", "of_main", "of_dev").collect()
        return {each[0]: (each[1], each[2]) for each in rows}

    nothing = dict.fromkeys(range(6), (None, None))
    expected = nothing | {1: (None, "1"), 2: (None, "2"), 3: (3, None), 4: (4, None)}
    expected |= {11: (None, "7"), 13: (7, None)}
    check_same(repo, spark, "main")
    assert values() == expected
    # Both sides go on, under their own ids, and merge in both directions.
    change(repo, spark, "dev", "ALTER TABLE {} RENAME COLUMN of_dev TO their")
    change(repo, spark, "dev", "UPDATE {} SET their = 'z' WHERE id IN (0, 1)")
    change(repo, spark, "main", "UPDATE {} SET of_main = 9 WHERE id = 3")
    repo.merge("dev", "main", rules=RULES)
    change(repo, spark, "main", "ALTER TABLE {} RENAME COLUMN their TO of_dev")
    expected |= {0: (None, "z"), 1: (None, "z"), 3: (9, None)}
    assert values() == expected
    change(repo, spark, "dev", "ALTER TABLE {} RENAME COLUMN their TO of_dev")
    change(repo, spark, "dev", "INSERT INTO {} VALUES (20, 'last', 'dev')")
    repo.merge("main", "dev", rules=RULES)
    assert values("dev") == expected | {20: (None, "dev")}


def test_a_table_that_both_sides_created(repo: Repository, spark: SparkSession) -> None:
    repo.branch("main").put("x", b"x")
    repo.branch("main").commit("no table yet")
    dev, main = repo.create_branch("dev", "main"), repo.branch("main")
    for at, branch in ((1, dev), (2, main)):
        some = spark.createDataFrame([(at, branch.name), (9, "both")], "id bigint, k string")
        branch.write(some, TABLE, "iceberg")
        branch.commit("created the table")
    change(repo, spark, "dev", "UPDATE {} SET k = 'later' WHERE id = 1")
    repo.create_branch("united", "main")
    repo.merge("dev", "united")
    ids = sorted(each[0] for each in check_same(repo, spark, "united"))
    assert ids == [1, 2, 9, 9]
    repo.merge("dev", "main", rules=RULES)
    assert rows_of(repo, spark) == {1: "later", 2: "main", 9: "both"}
    change(repo, spark, "main", "DELETE FROM {} WHERE id = 9", "INSERT INTO {} VALUES (3, 'x')")
    assert rows_of(repo, spark) == {1: "later", 2: "main", 3: "x"}


def test_merge_bases_that_disagree_on_a_table(repo: Repository, spark: SparkSession) -> None:
    data = spark.range(1, 3).selectExpr("id", "'x' AS k").coalesce(1)
    repo.branch("main").write(data, TABLE, "iceberg", **OPTIONS)
    repo.branch("main").commit("created the table")
    repo.create_branch("dev", "main")
    for branch, key in (("dev", 10), ("main", 11)):
        change(repo, spark, branch, f"INSERT INTO {{}} VALUES ({key}, '{branch}')")
    for name, first, second in (("x", "dev", "main"), ("y", "main", "dev")):
        repo.create_branch(name, first)
        repo.merge(second, name)
    change(repo, spark, "x", "INSERT INTO {} VALUES (20, 'x')")
    change(repo, spark, "y", "INSERT INTO {} VALUES (21, 'y')")
    repo.create_branch("with-rule", "y")
    repo.merge("x", "with-rule", rules=RULES)
    both = {1: "x", 2: "x", 10: "dev", 11: "main", 20: "x", 21: "y"}
    assert rows_of(repo, spark, "with-rule") == both
    change(repo, spark, "x", "UPDATE {} SET k = 'of x' WHERE id IN (1, 10)")
    change(repo, spark, "y", "UPDATE {} SET k = 'of y' WHERE id IN (1, 2)")
    with pytest.raises(MergeConflictError, match=r"--rule 'tables/orders/=rows\(KEY\)'"):
        repo.merge("x", "y")
    # Both sides changed key 1, and the bases disagree on key 10.
    with pytest.raises(MergeConflictError, match=r"such as rows\(id, then=source-wins\)") as raised:
        repo.merge("x", "y", rules=RULES)
    keys = sorted(each.key for each in raised.value.conflict_rows.collect())
    assert keys == ['{"id":10}', '{"id":1}']
    repo.merge("x", "y", rules={f"{TABLE}/": rows("id", then="source-wins")})
    assert rows_of(repo, spark, "y") == both | {1: "of x", 2: "of y", 10: "of x"}


COMPACT = (
    "CALL {0.catalog}.system.rewrite_data_files(table => '{0}', "
    "options => map('rewrite-all', 'true'))"
)


@pytest.mark.parametrize("table", EVERY[1:2], indirect=True)
def test_refusals_that_a_key_resolves(table: Repository, spark: SparkSession) -> None:
    """Each message advises a rule, which is followed."""
    delete, update = "DELETE FROM {} WHERE id = 3", "UPDATE {} SET k = 'new' WHERE id = 5"
    base = rows_of(table, spark)
    deleted = {key: each for key, each in base.items() if key != 3}
    insert = "INSERT INTO {} VALUES (30, 'dev')"
    for name, theirs, ours, reason, expected in (
        ("dest", [delete], [COMPACT], "files in which source deleted", deleted),
        ("source", [COMPACT], [delete], "rewrote files in which dest deleted", deleted),
    ):
        for side, statements in (("s", theirs), ("d", ours)):
            table.create_branch(f"{side}-{name}", "main")
            change(table, spark, f"{side}-{name}", *statements)
        with pytest.raises(MergeConflictError, match=rf"{reason}.*rows\(KEY\)"):
            table.merge(f"s-{name}", f"d-{name}")
        table.merge(f"s-{name}", f"d-{name}", rules=RULES)
        assert rows_of(table, spark, f"d-{name}") == expected
    # Only source has row ids. The advice of two messages is followed.
    change(table, spark, "dev", UPGRADE, delete)
    change(table, spark, "main", "DELETE FROM {} WHERE id = 4")
    why = "without row ids, because only source was upgraded: upgrade dest, too"
    with pytest.raises(MergeConflictError, match=why):
        table.merge("dev", "main", rules=RULES)
    change(table, spark, "main", UPGRADE)
    why = "without row ids, because it was upgraded.*Commit a change of its rows first"
    with pytest.raises(MergeConflictError, match=why):
        table.merge("dev", "main", rules=RULES)
    change(table, spark, "main", update)
    table.merge("dev", "main", rules=RULES)
    expected = {key: each for key, each in base.items() if key not in (3, 4)} | {5: "new"}
    assert rows_of(table, spark) == expected
    # Both sides add rows, and source changes them.
    table.create_branch("later", "main")
    change(table, spark, "later", insert)
    change(table, spark, "later", COMPACT)
    change(table, spark, "main", "INSERT INTO {} VALUES (31, 'main')")
    with pytest.raises(MergeConflictError, match=r"row ids are different in dest.*rows\(KEY\)"):
        table.merge("later", "main")
    table.merge("later", "main", rules=RULES)
    assert rows_of(table, spark) == expected | {30: "dev", 31: "main"}


def test_overwrites_of_an_empty_table(repo: Repository, spark: SparkSession) -> None:
    main = repo.branch("main")
    main.write(spark.createDataFrame([], "id bigint, k string"), TABLE, "iceberg")
    main.commit("an empty table")
    repo.create_branch("dev", "main")
    for branch, key in (("dev", 1), ("main", 2)):
        change(repo, spark, branch, f"INSERT OVERWRITE {{}} VALUES ({key}, '{branch}')")
    with pytest.raises(MergeConflictError, match=r"may have overwritten rows of .*rows\(KEY\)"):
        repo.merge("dev", "main")
    repo.merge("dev", "main", rules=RULES)
    assert rows_of(repo, spark) == {1: "dev", 2: "main"}
