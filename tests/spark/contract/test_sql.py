"""SQL over lake tables, in Spark: reads, writes that are staged, and statements on refs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import NumberFormatException, ParseException, PySparkException

import sparklake
from sparklake import Branch, Lake, Repository
from sparklake.dbt import _LakeSql
from sparklake.errors import AlreadyExistsError, DirtyBranchError, InvalidInputError
from sparklake.session import quoted
from sparklake.sql.session import SqlSession
from sparklake.sql.tokens import split
from sparklake.verbs.delta import write as delta_writes
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def repo(
    lake: Lake, names: Iterator[str], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Repository:
    """Create a repository with a Delta and a Parquet table, and the tag v1, for all tests."""
    repo = lake.create_repository(next(names), str(tmp_path_factory.mktemp("sql") / "namespace"))
    branch = repo.branch("main")
    orders = spark.createDataFrame([(1, 10.0), (2, 20.0)], "id long, price double")
    branch.write(orders.coalesce(1), "tables/orders", format="delta")
    people = spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")
    branch.write(people.coalesce(1), "tables/names")
    branch.commit("two tables")
    repo.create_tag("v1", "main")
    return repo


@pytest.fixture
def main(repo: Repository) -> Branch:
    branch = repo.branch("main")
    branch.hard_reset("v1", force=True)
    return branch


@pytest.fixture
def sql(lake: Lake, repo: Repository) -> Run:
    """Return a function that runs a statement, in which R is the repository."""

    def run(text: str) -> list[tuple[Any, ...]]:
        name = f"lakefs.{quoted(repo.name)}"
        text = text.replace("R.", f"{name}.").replace("IN R", f"IN {name}")
        return [tuple(each) for each in lake.sql(text).collect()]

    return run


def test_reads_at_refs(sql: Run, main: Branch, repo: Repository) -> None:
    sql("DELETE FROM R.main.`tables/orders` WHERE orders.id = 2")
    joined = sql(
        "SELECT /*+ BROADCAST(names) */ orders.id, name, old.price -- R.main.nothing\n"
        "FROM R.main.tables.orders JOIN R.main.`tables/names` USING (id) "
        "JOIN R.v1.`tables/orders` old ON old.id = orders.id"
    )
    assert joined == [(1, "a", 10.0)]
    assert sql("SELECT count(*) FROM R.`main@`.tables.orders") == [(2,)], "without staged changes"
    sql("COMMIT R.main MESSAGE 'drop the second order'")
    assert sql("SELECT count(*) FROM R.`main~1`.tables.orders") == [(2,)]
    assert sql("SELECT count(*) FROM R.main.tables.orders") == [(1,)]


def test_changes_of_delta_tables_are_staged(sql: Run, main: Branch) -> None:
    sql("INSERT INTO R.main.tables.orders VALUES (3, 30.0)")
    sql("UPDATE R.main.tables.orders SET price = orders.price + 1 WHERE id = 1")
    sql(
        "MERGE INTO R.main.tables.orders USING R.v1.tables.orders old ON orders.id = old.id + 2 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, price) VALUES (9, 90.0)"
    )
    sql("ALTER TABLE R.main.tables.orders ADD COLUMNS (note string COMMENT 'R.main.x; y')")
    assert main.is_dirty
    rows = sql("SELECT * FROM R.main.tables.orders ORDER BY id")
    assert rows == [(1, 11.0, None), (2, 20.0, None), (9, 90.0, None)]
    assert sql("SELECT * FROM R.v1.tables.orders ORDER BY id") == [(1, 10.0), (2, 20.0)]


@pytest.mark.system
def test_a_merge_evolves_the_schema(sql: Run, main: Branch) -> None:
    merge = (
        "MERGE WITH SCHEMA EVOLUTION INTO R.main.tables.orders "
        "USING (SELECT 2L AS id, 21.0D AS price, 1 AS more) new ON orders.id = new.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    if IS_3:
        with pytest.raises(ParseException):
            sql(merge)
        assert not main.is_dirty
        return
    sql(merge)
    assert sql("SELECT * FROM R.main.tables.orders ORDER BY id") == [(1, 10.0, None), (2, 21.0, 1)]


def test_tables_are_created_and_inserted_into(sql: Run, main: Branch) -> None:
    sql(
        "CREATE TABLE R.main.tables.days USING parquet PARTITIONED BY (day) AS "
        "SELECT id, price, DATE'2024-03-01' AS day FROM R.main.tables.orders"
    )
    sql(
        "WITH more AS (SELECT 3) INSERT INTO R.main.tables.days "
        "SELECT *, 1.5, DATE'2024-03-02' FROM more"
    )
    sql("INSERT INTO TABLE R.main.tables.days (day, id) VALUES (DATE'2024-03-03', 4);")
    sql("INSERT INTO R.main.tables.days BY NAME SELECT DATE'2024-03-03' AS day, 5 AS id")
    rows = sql("SELECT id, price, day FROM R.main.tables.days ORDER BY id")
    assert rows == [
        (1, 10.0, date(2024, 3, 1)),
        (2, 20.0, date(2024, 3, 1)),
        (3, 1.5, date(2024, 3, 2)),
        (4, None, date(2024, 3, 3)),
        (5, None, date(2024, 3, 3)),
    ]
    sql("INSERT OVERWRITE R.main.tables.days SELECT 7, 7.0, DATE'2024-03-01'")
    assert sql("SELECT count(*), max(id) FROM R.main.tables.days") == [(1, 7)]


@pytest.mark.system
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_partitions_get_what_sparks_own_tables_get(
    sql: Run, main: Branch, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    columns = "USING parquet PARTITIONED BY (day, `a b`) "
    rows = (
        "SELECT 1 AS id, 1.0D AS price, DATE'2024-03-01' AS day, 'x' AS `a b` "
        "UNION ALL SELECT 2, 2.0D, DATE'2024-03-01', 'y' UNION ALL SELECT 3, 3.0D, NULL, 'x'"
    )
    own = f"own_{mode}"
    spark.sql(f"CREATE TABLE {own} {columns} LOCATION '{tmp_path}/own' AS {rows}")
    sql(f"CREATE TABLE R.main.tables.days {columns} AS {rows}")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        for statement in [
            "INSERT INTO {} PARTITION (day = '2024-03-01', `a b` = 'x') SELECT 4, 4.0",
            "INSERT INTO {} PARTITION (DAY = DATE'2024-03-02', `a b`) VALUES (5, 5.0, '\\' 1/2')",
            "INSERT INTO {} PARTITION (day, `a b`) SELECT 6, 6.0, DATE'2024-03-03', 'z'",
            "INSERT INTO {} PARTITION (day = NULL, `a b` = '50%') (price, id) SELECT 7.0, 7",
            "INSERT OVERWRITE {} PARTITION (day = NULL, `a b` = '50%') SELECT 8, 8.0",
            "INSERT OVERWRITE TABLE {} PARTITION (day = '2024-03-01', `a b`) SELECT 9, 9.0, 'x'",
            "INSERT OVERWRITE {} PARTITION (day = '2024-03-03', `a b` = 'z') SELECT 1, 2 LIMIT 0",
            "INSERT OVERWRITE {} PARTITION (day, `a b`) SELECT 10, 10.0, DATE'2024-03-02', 'new'",
        ]:
            spark.sql(statement.format(own))
            sql(statement.format("R.main.tables.days"))
            every = "SELECT * FROM {} ORDER BY id, price"
            assert sql(every.format("R.main.tables.days")) == [
                tuple(each) for each in spark.sql(every.format(own)).collect()
            ], statement
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql(f"DROP TABLE {own}")


@pytest.mark.system
def test_a_partition_is_found_as_it_is_spelled(sql: Run, main: Branch, spark: SparkSession) -> None:
    main.write(spark.sql("SELECT 1 AS id, '01' AS month"), "tables/m", partition_by=["month"])
    sql("INSERT OVERWRITE R.main.tables.m PARTITION (month = '01') SELECT 2")
    sql("INSERT OVERWRITE R.main.tables.m PARTITION (month = 2) SELECT 3")
    assert sql("SELECT * FROM R.main.tables.m ORDER BY id") == [(2, 1), (3, 2)]
    main.write(spark.sql("SELECT 1 AS id, 'NULL' AS c"), "tables/n", partition_by=["c"])
    sql("INSERT OVERWRITE R.main.tables.n PARTITION (c = NULL) SELECT 2")
    assert sql("SELECT * FROM R.main.tables.n ORDER BY id") == [(1, "NULL"), (2, None)]
    # Which of both errors it is depends on spark.sql.ansi.enabled.
    with pytest.raises((InvalidInputError, NumberFormatException)):
        sql("INSERT INTO R.main.tables.m PARTITION (month = 'May') SELECT 4")


@pytest.mark.system
@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_names_of_tables_are_literal(
    sql: Run, main: Branch, repo: Repository, table_format: str
) -> None:
    path = "`a`b.c;--é"
    name = f"R.main.{quoted(path)}"
    sql(f"CREATE TABLE {name} USING {table_format} AS SELECT 1 AS id")
    sql(f"INSERT INTO {name} SELECT id + 1 FROM {name}")
    assert sql(f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,)]
    assert list(repo.objects("main", f"{path}/"))
    sql(f"DROP TABLE {name}")
    assert not list(repo.objects("main", f"{path}/"))


def test_statements_on_refs(sql: Run, main: Branch, lake: Lake, repo: Repository) -> None:
    head = main.head.id
    assert sql("CREATE BRANCH dev IN R FROM main") == [("dev", head, False)]
    sql("CREATE BRANCH IF NOT EXISTS dev IN R")
    with pytest.raises(AlreadyExistsError):
        sql("CREATE BRANCH dev IN R")
    sql("DELETE FROM R.dev.tables.orders WHERE id = 1")
    assert [each[0] for each in sql("SHOW CHANGES R.dev")] == ["added"] * len(
        list(repo.branch("dev").diff())
    )
    with pytest.raises(DirtyBranchError):
        sql("DROP BRANCH IF EXISTS dev IN R")
    assert sql("SHOW BRANCHES IN R") == [("dev", head, True), ("main", head, False)]
    [(branch, commit, message)] = sql(
        "COMMIT R.dev MESSAGE 'it\\'s late; ü' META ticket = '12', \"by\" = 'joe'"
    )
    assert (branch, message) == ("dev", "it's late; ü")
    assert repo.resolve(commit).metadata == {"ticket": "12", "by": "joe"}
    assert len(sql("DIFF main dev IN R")) == len(list(repo.diff("main", "dev")))
    [(_, merged, _)] = sql("MERGE BRANCH dev INTO main IN R STRATEGY 'source-wins' MESSAGE 'm'")
    assert [each[0] for each in sql("SHOW COMMITS R.main LIMIT 2")] == [merged, commit]
    assert sql("CREATE TAG v2 IN R FROM main") == [("v2", merged)]
    assert sql("SHOW TAGS IN R") == [("v1", head), ("v2", merged)]
    assert sql("DROP TAG v2 IN R") == [("v2", merged)]
    assert sql("DROP TAG IF EXISTS v2 IN R") == []
    assert sql("DROP BRANCH dev IN R") == [("dev", commit, False)]
    assert sql("DROP BRANCH IF EXISTS dev IN R") == []


def test_use_resolves_names_of_one_part(
    sql: Run, main: Branch, lake: Lake, spark: SparkSession
) -> None:
    sql("USE R.main")
    sql("DROP TABLE `tables/names`")
    assert sql("SELECT count(*) FROM `tables/orders` o WHERE `o`.id > 1") == [(1,)]
    sql("WITH v1 AS (SELECT 5 AS x) SELECT x FROM v1")
    spark.sql("SELECT 6 AS x").createOrReplaceTempView("Mine")
    assert sql("SELECT x FROM mine") == [(6,)], "temporary views come first"
    spark.catalog.dropTempView("Mine")
    assert [each[0] for each in sql("SHOW COMMITS LIMIT 1")] == [main.head.id]
    with pytest.raises(InvalidInputError, match="no table"):
        sql("INSERT INTO `tables/names` VALUES (1)")
    sql("USE default")
    with pytest.raises(InvalidInputError, match="needs a repository"):
        sql("SHOW COMMITS")
    sql("DROP TABLE IF EXISTS R.main.tables.names")


@pytest.mark.system
@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_table_is_created_with_columns(sql: Run, main: Branch, table_format: str) -> None:
    columns = "id BIGINT, `a-b` DECIMAL(10, 2), tags ARRAY<STRUCT<k: STRING>>, day DATE"
    sql(f"CREATE TABLE R.main.tables.empty ({columns}) USING {table_format}")
    assert sql("SELECT * FROM R.main.tables.empty") == []
    sql("INSERT INTO R.main.tables.empty VALUES (1, 2.5, NULL, DATE'2024-01-31')")
    assert sql("SELECT id, `a-b`, day FROM R.main.tables.empty") == [
        (1, Decimal("2.50"), date(2024, 1, 31))
    ]


@pytest.mark.system
def test_a_snapshot_of_dbt_is_merged(lake: Lake, repo: Repository, main: Branch, sql: Run) -> None:
    """Dbt compares it with a view of the rows, which it drops; other views are refused."""
    dbt, schema = _LakeSql(lake), f"lakefs.{quoted(repo.name)}.main.tables"
    view = f"{schema}.orders__dbt_tmp"
    dbt.sql(
        f"create or replace view {view}\n\n  as\n"
        f"  select id + 1 AS id, 5.0D AS price from {schema}.orders"
    )
    assert [each.col_name for each in dbt.sql(f"describe extended {view}").take(2)] == [
        "id",
        "price",
    ]
    dbt.sql(
        f"merge into {schema}.orders as DBT_INTERNAL_DEST using {view} as DBT_INTERNAL_SOURCE "
        "on DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id when not matched then insert *"
    )
    dbt.sql(f"drop view if exists {view}")
    assert sql("SELECT * FROM R.main.tables.orders ORDER BY id") == [(1, 10), (2, 20), (3, 5)]
    assert not list(repo.objects("main", "tables/orders__dbt_tmp"))
    with pytest.raises(InvalidInputError, match="x cannot be a view"):
        dbt.sql(f"create or replace view {schema}.x as select 1 as a")


SPARKS = """
VALUES (1, 'a'), (2, 'b')
SELECT lakefs.a FROM (SELECT 1 AS a) AS lakefs
WITH x AS (SELECT 1 AS a) SELECT * FROM x
FROM VALUES (1) AS t(a) SELECT a
SELECT * FROM range(3)
SELECT 'lakefs.lake.main.x', "lakefs.x"
CREATE DATABASE IF NOT EXISTS other
DESCRIBE DATABASE other
DESC SCHEMA EXTENDED other
ALTER DATABASE other SET DBPROPERTIES (a = 'b')
COMMENT ON DATABASE other IS 'x'
CREATE TABLE IF NOT EXISTS other.t (a INT, b STRING) USING parquet
INSERT INTO other.t VALUES (1, 'x')
INSERT INTO other.t BY NAME SELECT 'y' AS b, 2 AS a
INSERT OVERWRITE other.t SELECT 3, 'z'
FROM other.t INSERT INTO other.t SELECT 4, b INSERT INTO other.t SELECT 5, b
DESCRIBE other.t a
DESCRIBE QUERY SELECT 1
SHOW TABLES IN other
SHOW COLUMNS IN other.t
SHOW CREATE TABLE other.t
SHOW TBLPROPERTIES other.t ('nothing')
SHOW PARTITIONS other.t
SHOW DATABASES LIKE 'oth*'
SHOW FUNCTIONS LIKE 'abs'
SHOW CATALOGS
SHOW VIEWS IN other
TABLE other.t
SELECT a FROM other.t |> WHERE a > 1
ANALYZE TABLE other.t COMPUTE STATISTICS
REFRESH TABLE other.t
REFRESH '/tmp/nothing'
MSCK REPAIR TABLE other.t
TRUNCATE TABLE other.t
ALTER TABLE other.t SET TBLPROPERTIES ('a' = 'b')
ALTER TABLE other.t RENAME TO other.t
CREATE OR REPLACE VIEW other.v AS SELECT * FROM other.t
ALTER VIEW other.v AS SELECT 1 AS a
DESCRIBE EXTENDED other.v
DROP VIEW other.nothing
DROP VIEW IF EXISTS other.v
UPDATE other.t SET a = 1
DELETE FROM other.t
MERGE INTO other.t USING other.t s ON t.a = s.a WHEN MATCHED THEN DELETE
LOAD DATA INPATH '/nothing' INTO TABLE other.t
CREATE OR REPLACE TEMPORARY VIEW brief AS SELECT 1 AS a
CACHE TABLE brief
UNCACHE TABLE brief
CLEAR CACHE
DROP VIEW IF EXISTS brief
DESCRIBE FUNCTION abs
DESC FUNCTION EXTENDED abs
CREATE OR REPLACE TEMPORARY FUNCTION brief AS 'org.Nothing'
DROP TEMPORARY FUNCTION IF EXISTS brief
DECLARE OR REPLACE VARIABLE brief INT DEFAULT 5
SET VAR brief = brief + 1
EXECUTE IMMEDIATE 'SELECT 1 AS a'
EXECUTE IMMEDIATE 'SELECT max(a) FROM other.t' INTO brief
DROP TEMPORARY VARIABLE IF EXISTS brief
SET spark.sql.shuffle.partitions
RESET spark.sql.nothing
LIST JARS
ADD FILE '/nothing'
CALL nothing()
EXPLAIN SELECT 1
EXPLAIN VALUES (1)
GRANT SELECT ON other.t TO x
this is no SQL
SELECT * FROM STREAM other.t
DROP TABLE IF EXISTS other.t
DROP DATABASE other
""".strip().splitlines()


def outcome(run: Callable[[str], Any], text: str) -> Any:
    """Return the rows of a statement, or the class of its error."""
    try:
        rows = [tuple(each) for each in run(text).collect()]
    except PySparkException as error:
        return type(error).__name__, getattr(error, "getErrorClass", lambda: None)()
    except Py4JJavaError as error:
        return str(error.java_exception)
    return re.sub(r"#\d+|\d{10,}|\w{3} \w{3} \d+ [\d:]+ \w+ \d+", "", repr(rows))


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:Deprecated in 4.0.0")
def test_what_names_no_lake_table_is_as_in_spark(
    lake: Lake, repo: Repository, main: Branch, spark: SparkSession
) -> None:
    session = lake.session(f"lakefs://{repo.name}/main")
    for text in SPARKS:
        if "DATABASE" in text and text.startswith("DROP"):
            session.sql(text)
            continue
        assert outcome(session.sql, text) == outcome(spark.sql, text), text
    assert not main.is_dirty
    with pytest.raises(InvalidInputError, match="did you mean COMMIT "):
        session.sql("COMIT MESSAGE 'x'")


def test_errors_have_the_names_of_the_statement(sql: Run, main: Branch) -> None:
    for text in (
        "SELECT nothing FROM R.main.tables.orders",
        "INSERT INTO R.main.tables.orders SELECT nothing FROM R.main.tables.orders",
        "UPDATE R.main.tables.orders SET nothing = 1",
        "UPDATE R.main.tables.orders SET id = 1 WHERE SELECT",
        "CREATE VIEW kept AS SELECT * FROM R.main.tables.orders",
        "DESCRIBE HISTORY R.main.tables.orders",
    ):
        with pytest.raises((PySparkException, InvalidInputError)) as error:
            sql(text)
        message = str(error.value).partition("JVM stacktrace")[0]
        assert not re.search(r"delta\.`|delta`\.|sparklake_|/_lakefs|/tmp/", message), message


@pytest.mark.system
def test_doubled_quotes_and_options_in_sql(sql: Run, main: Branch, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "it's"), (2, "a")], "id int, c string")
    main.write(rows, "tables/q", partition_by=["c"])
    if not IS_3:  # Spark 3.5 reads two texts, `it` and `s`.
        sql("INSERT OVERWRITE R.main.tables.q PARTITION (c = 'it''s') SELECT 3")
        assert sql("SELECT * FROM R.main.tables.q ORDER BY id") == [(2, "a"), (3, "it's")]
    assert sql("COMMIT R.main MESSAGE 'it''s'")[0][2] == "it's"
    with pytest.raises(AlreadyExistsError, match="already exists; IF NOT EXISTS accepts it"):
        sql("CREATE BRANCH R.main")
    with pytest.raises(AlreadyExistsError, match="already exists; IF NOT EXISTS accepts it"):
        sql("CREATE TAG R.v1 FROM R.`main~1`")


def test_what_is_refused_changes_nothing(sql: Run, main: Branch) -> None:
    refused = {
        "INSERT INTO R.v1.tables.orders VALUES (1, 1.0)": "not a branch",
        "DELETE FROM R.`main~1`.tables.orders": "not a branch",
        "DELETE FROM R.main.tables.names WHERE id = 1": "Parquet files",
        "INSERT INTO R.main.tables.names PARTITION (id = 1) SELECT 'x'": "partitioned by no column",
        "INSERT INTO R.main.tables.names PARTITION (id = 1 + 1) SELECT 'x'": "constants",
        "INSERT INTO R.main.tables.names SELECT 1": "do not match",
        "INSERT INTO R.main.tables.nothing SELECT 1": "no table",
        "DROP TABLE R.main.tables": "not one table",
        "CREATE TABLE R.main.tables.x USING delta": "either columns or rows",
        "CREATE TABLE R.main.tables.x (a INT) USING csv": "would lose its columns",
        "CREATE TABLE R.main.tables.x (a INT) USING parquet PARTITIONED BY (a)": "would lose",
        "CREATE TABLE R.main.tables.x LOCATION '/x' AS SELECT 1 AS a": "allows only USING",
        "ALTER TABLE R.main.tables.orders RENAME TO x": "not possible",
        "ALTER TABLE R.main.tables.orders SET LOCATION '/x'": "not possible",
        "TRUNCATE TABLE R.main.tables.orders": "use DELETE FROM",
        "CREATE TABLE R.main.tables.x (a VARCHAR(3)) USING delta": "would lose its limit",
        "SELECT * FROM R.main.tables.orders VERSION AS OF 1": "its ref is the version",
        "SELECT 1; SELECT 2": "one statement",
    }
    for text, reason in refused.items():
        with pytest.raises(InvalidInputError, match=reason):
            sql(text)
    assert not main.is_dirty


@pytest.mark.system
def test_a_statement_that_lost_a_race_runs_again(
    sql: Run, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, raced = delta_writes._Copy.stage, []

    def race(copy: Any) -> Any:
        if not raced:
            raced.append(True)
            sql("UPDATE R.main.tables.orders SET price = 21 WHERE id = 2")
        return stage(copy)

    monkeypatch.setattr(delta_writes._Copy, "stage", race)
    sql("UPDATE R.main.tables.orders SET price = price + 1")
    assert sql("SELECT price FROM R.main.tables.orders ORDER BY id") == [(11.0,), (22.0,)]


@pytest.mark.system
@pytest.mark.connect
def test_lazy_frames_and_views_keep_their_version(
    sql: Run, lake: Lake, main: Branch, repo: Repository, spark: SparkSession
) -> None:
    name = f"lakefs.{quoted(repo.name)}.main.`tables/orders`"
    rows = lake.sql(f"SELECT id FROM {name} ORDER BY id")
    lake.sql(f"CREATE TEMPORARY VIEW kept AS SELECT * FROM {name}")
    sql("DELETE FROM R.main.tables.orders WHERE id = 1")
    assert [each.id for each in rows.collect()] == [1, 2]
    assert spark.table("kept").count() == 2
    spark.catalog.dropTempView("kept")


@pytest.mark.system
def test_replaced_tables_lose_all_partitions(sql: Run, main: Branch, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for kind in ("parquet", "delta"):
            for day in ("a", "b"):
                sql(
                    f"CREATE OR REPLACE TABLE R.main.t.{kind} USING {kind} PARTITIONED BY (day) "
                    f"AS SELECT 1 AS id, '{day}' AS day"
                )
            assert sql(f"SELECT * FROM R.main.t.{kind}") == [(1, "b")]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_magics_show_rows(
    lake: Lake, main: Branch, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, shown = Mock(user_ns={"lake": lake}), []
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    sparklake.load_ipython_extension(shell)
    ((magic, kind, name), _) = shell.register_magic_function.call_args
    assert (kind, name) == ("line_cell", "lake")
    magic(f"SHOW TAGS IN lakefs.{quoted(repo.name)}")
    magic("rows", "CREATE TEMPORARY VIEW magic AS SELECT '<b>' AS x;\nSELECT * FROM magic;")
    assert shell.user_ns["rows"].collect() == [("<b>",)]
    assert ["v1" in shown[0], "&lt;b&gt;" in shown[1], len(shown)] == [True, True, 2]
    with pytest.raises(InvalidInputError, match="name of a variable"):
        magic("a b", "SELECT 1")
    lake.sql("DROP VIEW magic")


def test_scripts_need_no_spark_for_statements_on_refs(repo: Repository, lake: Lake) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("these statements need none")

    session = SqlSession(lake.repository, no_spark)
    script = f"USE lakefs.{quoted(repo.name)}; CREATE TAG first; SHOW TAGS;"
    *_, tags = map(session.run, split(script))
    assert "first" in [each["name"] for each in tags]
    repo.delete_tag("first")
