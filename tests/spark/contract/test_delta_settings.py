"""Settings, columns and types that both sides of a Delta table changed: merged and used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Branch, MergeConflictError, Repository
from sparklake.strategies import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINE = "auto"
pytestmark = pytest.mark.spark

Edit = Callable[..., None]


@pytest.fixture
def edit(spark: SparkSession) -> Edit:
    """Run statements on tables of a branch, and commit once."""

    def change(branch: Branch, **statements: list[str]) -> None:
        for name, each in statements.items():
            with branch.edit_delta(f"t/{name}") as location:
                for text in each:
                    spark.sql(text.format(t=f"delta.`{location}`")).collect()
        branch.commit("changed tables")

    return change


def at(repo: Repository, name: str, *columns: str) -> list[tuple[Any, ...]]:
    table = repo.read("main", f"t/{name}")
    return sorted(map(tuple, table.selectExpr(*(columns or table.columns)).collect()), key=str)


PLAIN = "VALUES (1, 1), (2, 2) AS t(id, v)"
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"}


@pytest.fixture
def create(spark: SparkSession) -> Callable[..., None]:
    """Write a table of rows given by a query."""

    def write(branch: Branch, name: str, query: str = PLAIN, **properties: str) -> None:
        branch.write(spark.sql(query).coalesce(1), f"t/{name}", "delta", **properties)

    return write


@pytest.mark.system
def test_what_both_sides_did_to_tables_is_combined(
    repo: Repository, edit: Edit, create: Callable[..., None], spark: SparkSession
) -> None:
    main = repo.branch("main")
    for name, properties in (
        ("settings", {}),
        ("rule", {}),
        ("ruled_rows", {}),
        ("column", MAPPED),
        ("renamed", MAPPED),
    ):
        create(main, name, **properties)
    wider = (
        "SELECT id, CAST(v AS DECIMAL(10,2)) v, id n, DATE'2026-01-01' + id d "
        "FROM VALUES (1, 1.25), (2, 2.5) AS t(id, v)"
    )
    create(main, "wider", wider, **WIDENING)
    struct = "named_struct('a', id)"
    nested = f"SELECT id, {struct} s, array({struct}) l FROM VALUES (1), (2) AS t(id)"
    create(main, "nested", nested)
    main.commit("created tables")
    dev = repo.create_branch("dev", "main")
    both = "ALTER TABLE {t} ADD COLUMN c INT"
    edit(
        dev,
        settings=["ALTER TABLE {t} SET TBLPROPERTIES ('a' = '1')", "INSERT INTO {t} VALUES (3, 3)"],
        rule=["ALTER TABLE {t} ADD CONSTRAINT small CHECK (v < 9)"],
        ruled_rows=[
            "ALTER TABLE {t} ADD CONSTRAINT small CHECK (v < 9)",
            "UPDATE {t} SET v = 3 WHERE id = 1",
        ],
        column=[both, "INSERT INTO {t} VALUES (3, 3, 30)"],
        renamed=["UPDATE {t} SET v = 10 WHERE id = 1"],
        wider=[
            "ALTER TABLE {t} ALTER COLUMN v TYPE DECIMAL(14,4)",
            "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN d TYPE TIMESTAMP_NTZ",
            "UPDATE {t} SET v = 1.1234, n = 5000000000 WHERE id = 1",
        ],
        nested=[
            "ALTER TABLE {t} ADD COLUMN s.b INT",
            "ALTER TABLE {t} ADD COLUMN l.element.b INT",
            "UPDATE {t} SET s = named_struct('a', 1, 'b', 10) WHERE id = 1",
        ],
    )
    edit(
        main,
        settings=["ALTER TABLE {t} SET TBLPROPERTIES ('b' = '2')", "INSERT INTO {t} VALUES (4, 4)"],
        rule=["INSERT INTO {t} VALUES (3, 3)"],
        ruled_rows=["UPDATE {t} SET v = 4 WHERE id = 2", "INSERT INTO {t} VALUES (3, 3)"],
        column=[both],
        renamed=["ALTER TABLE {t} RENAME COLUMN v TO w", "UPDATE {t} SET w = 20 WHERE id = 2"],
        wider=["UPDATE {t} SET v = 3.75 WHERE id = 2"],
        nested=["UPDATE {t} SET s = named_struct('a', 7) WHERE id = 2"],
    )
    for branch, number in ((dev, 1), (main, 2)):
        create(branch, "made", f"VALUES ({number}, {number}) AS t(id, v)")
        branch.commit("created a table")
    by_id = {f"t/{name}/": rows("id") for name in ("ruled_rows", "renamed", "wider", "nested")}
    preview = repo.preview_merge("dev", "main", rules=by_id)
    assert preview.unresolved == 0
    repo.merge("dev", "main", rules=by_id)
    assert at(repo, "settings") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert at(repo, "rule") == [(1, 1), (2, 2), (3, 3)]
    assert at(repo, "ruled_rows") == [(1, 3), (2, 4), (3, 3)]
    assert at(repo, "column") == [(1, 1, None), (2, 2, None), (3, 3, 30)]
    assert at(repo, "renamed", "id", "w") == [(1, 10), (2, 20)]
    assert [(str(v), n, str(d)) for _, v, n, d in at(repo, "wider")] == [
        ("1.1234", 5_000_000_000, "2026-01-02 00:00:00"),
        ("3.7500", 2, "2026-01-03 00:00:00"),
    ]
    assert at(repo, "nested", "id", "s.a", "s.b", "l.b") == [
        (1, 1, 10, [None]),
        (2, 7, None, [None]),
    ]
    assert at(repo, "made") == [(1, 1), (2, 2)]
    with main.edit_delta("t/settings") as location:
        properties = spark.sql(f"SHOW TBLPROPERTIES delta.`{location}`").collect()
        assert {("a", "1"), ("b", "2")} <= {(each.key, each.value) for each in properties}
    with pytest.raises(Exception, match="small"):
        edit(main, rule=["INSERT INTO {t} VALUES (9, 9)"])
    # Spark goes on with the merged tables.
    edit(
        main,
        column=["INSERT INTO {t} VALUES (4, 4, 40)"],
        renamed=["UPDATE {t} SET w = 21 WHERE id = 2"],
        wider=["INSERT INTO {t} VALUES (3, 12345.6789, 3, TIMESTAMP_NTZ'2026-01-03 12:00:00')"],
        nested=["UPDATE {t} SET s = named_struct('a', 8, 'b', 80) WHERE id = 2"],
        made=["UPDATE {t} SET v = 3 WHERE id = 2"],
    )
    assert at(repo, "column")[-1] == (4, 4, 40)
    assert at(repo, "renamed", "id", "w") == [(1, 10), (2, 21)]
    assert at(repo, "made") == [(1, 1), (2, 3)]


@pytest.mark.system
def test_what_a_conflict_between_settings_says_leads_out(
    repo: Repository, edit: Edit, create: Callable[..., None]
) -> None:
    main = repo.branch("main")
    for name in ("rule", "ruled_rows", "ids", "value", "feed"):
        create(main, name, **(MAPPED if name == "ids" else {}))
    main.commit("created tables")
    dev = repo.create_branch("dev", "main")
    both = "ALTER TABLE {t} ADD COLUMN c INT"
    setting = "ALTER TABLE {{t}} SET TBLPROPERTIES ('{}' = '{}')"
    feed = setting.format("delta.enableChangeDataFeed", "true")
    edit(
        dev,
        rule=["INSERT INTO {t} VALUES (3, -1), (4, NULL)"],
        ruled_rows=[
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (v > 0)",
            "UPDATE {t} SET v = 10 WHERE id = 1",
        ],
        ids=[both, "INSERT INTO {t} VALUES (3, 3, 30)"],
        value=[setting.format("a", "1")],
        feed=["UPDATE {t} SET v = 10 WHERE id = 1"],
    )
    edit(
        main,
        rule=["ALTER TABLE {t} ADD CONSTRAINT positive CHECK (v > 0)"],
        ruled_rows=["UPDATE {t} SET v = -2 WHERE id = 2"],
        ids=[both, "INSERT INTO {t} VALUES (4, 4, 40)"],
        value=[setting.format("a", "2")],
        feed=[feed],
    )

    by_id = {"t/ruled_rows/": rows("id")}

    def refused(name: str, words: str) -> None:
        with pytest.raises(MergeConflictError, match=words) as raised:
            repo.merge("dev", "main", paths=[f"t/{name}/"], rules=by_id)
        assert f"'t/{name}'" in str(raised.value)
        assert repo.preview_merge("dev", "main", paths=[f"t/{name}/"], rules=by_id).unresolved

    refused(
        "rule", r"2 rows of source violate .* delete them in source.*: positive \(v > 0\) by .*3"
    )
    edit(dev, rule=["DELETE FROM {t} WHERE v IS NULL OR v <= 0", "INSERT INTO {t} VALUES (5, 5)"])
    refused("ruled_rows", r"1 row of dest violate.* delete them in dest.* \(v > 0\) by .*-2")
    edit(main, ruled_rows=["UPDATE {t} SET v = 20 WHERE id = 2"])
    refused("ids", "under two ids.* Rename it on one side, merge, copy its values .*: 'c'")
    edit(dev, ids=["ALTER TABLE {t} RENAME COLUMN c TO c2"])
    refused("value", "Make the same change on both sides, .*: the property a")
    edit(dev, value=[setting.format("a", "2")])
    refused("feed", "Set it to 'true' on both sides, and merge again")
    edit(dev, feed=[feed])
    repo.merge("dev", "main", rules=by_id)
    edit(main, ids=["UPDATE {t} SET c = coalesce(c, c2)", "ALTER TABLE {t} DROP COLUMN c2"])
    assert at(repo, "rule") == [(1, 1), (2, 2), (5, 5)]
    assert at(repo, "ruled_rows") == [(1, 10), (2, 20)]
    assert at(repo, "ids") == [(1, 1, None), (2, 2, None), (3, 3, 30), (4, 4, 40)]
    assert at(repo, "value") == [(1, 1), (2, 2)]
    assert at(repo, "feed") == [(1, 10), (2, 2)]
