"""Lake tables in statements: what is found, and that nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlglot import Token

from sparklake.errors import InvalidInputError
from sparklake.session import quoted
from sparklake.sql.ref_statements import parse_ref_statement
from sparklake.sql.statements import (
    Action,
    Statement,
    TableName,
    created_table,
    find_tables,
    inserted_query,
)
from sparklake.sql.tokens import check_comments, scan, split
from sparklake.uri import RefUri
from tests.sql.statements import SHAPES, plain_statements
from tests.support.cases import for_each

PLAIN = plain_statements()
PLACE = RefUri("lake", "main")


def rewritten(text: str, place: RefUri | None = None, views: tuple[str, ...] = ()) -> str:
    statement = find_tables(text, place, lambda name: name in views)
    return statement.rewritten(lambda name: f"<{name.ref}:{name.path}>", "TARGET")


def test_there_are_300_statements() -> None:
    assert len(set(PLAIN)) >= 300


@for_each("text", PLAIN)
def test_statements_without_lake_tables_are_unchanged(text: str) -> None:
    assert rewritten(text) == text
    assert parse_ref_statement(text) is None


names = st.builds(
    TableName,
    st.from_regex(r"[a-z0-9][a-z0-9-]{2,9}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,9}(~1|@)?", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
)


@given(st.sampled_from(SHAPES), st.tuples(names, names, names), st.data())
def test_only_names_change(shape: str, tables: tuple[TableName, ...], data: st.DataObject) -> None:
    spelled = [data.draw(spellings(each)) for each in tables]
    # Some shapes have the second name in a comment, where it stays as it is. It must not end it.
    assume(
        not re.search(r"(--|/\*) \{1\}", shape) or not re.search(r"[\r\n]|/\*|\*/", tables[1].path)
    )
    text = shape
    for at, each in enumerate(spelled):
        text = text.replace(f"{{{at}}}", each)
    statement = find_tables(text)
    used = {each.table for each in statement.sources}
    assert tables[0] in used
    assert used <= set(tables)
    assert restored(statement) == text
    for each in statement.sources:
        assert text[each.start : each.end] in spelled


def spellings(name: TableName) -> st.SearchStrategy[str]:
    parts = [quoted(name.repository), quoted(name.ref), quoted(name.path)]
    catalogs = st.sampled_from(["lakefs", "LakeFS", "`lakefs`"])
    dots = st.sampled_from([".", " . ", "/* ; */./* {} */"])
    return st.builds(lambda catalog, dot: dot.join([catalog, *parts]), catalogs, dots)


def restored(statement: Statement) -> str:
    """Put the names back into the rewritten text."""
    text, pieces, at = statement.text, [], 0
    changed = statement.rewritten(lambda _: "mark")
    for each in sorted(statement.sources, key=lambda source: source.start):
        name = "`mark`" + (f" AS {quoted(each.alias)}" if each.alias else "")
        start = changed.index(name, at)
        pieces += [changed[at:start], text[each.start : each.end]]
        at = start + len(name)
    return "".join([*pieces, changed[at:]])


L = "lakefs.lake.dev.`tables/o`"
V = "`<dev:tables/o>`"

REWRITTEN = {
    f"SELECT o.id FROM {L}": f"SELECT o.id FROM {V} AS `o`",
    f"SELECT * FROM {L} x": f"SELECT * FROM {V} x",
    f"SELECT * FROM {L} TABLESAMPLE (1 ROWS)": f"SELECT * FROM {V} TABLESAMPLE (1 ROWS)",
    f"SELECT * FROM ({L})": f"SELECT * FROM ({V} AS `o`)",
    f"SELECT * FROM {L} PIVOT (sum(a) FOR b IN (1)) p": f"SELECT * FROM {V} AS `o` PIVOT (sum(a) FOR b IN (1)) p",
    f"SELECT /*+ BROADCAST({L}) */ 1 FROM {L} x": f"SELECT /*+ BROADCAST({L}) */ 1 FROM {V} x",
    f"SELECT '{L}' FROM {L} o -- {L}\n": f"SELECT '{L}' FROM {V} o -- {L}\n",
    f"INSERT INTO {L} SELECT * FROM {L}": f"INSERT INTO TARGET SELECT * FROM {V} AS `o`",
    f"INSERT INTO {L} (a, b) VALUES (1, 2)": "INSERT INTO TARGET (a, b) VALUES (1, 2)",
    f"INSERT OVERWRITE TABLE {L} PARTITION (a) TABLE x": None,
    f"UPDATE {L} SET a = o.b": "UPDATE TARGET AS `o` SET a = o.b",
    f"UPDATE {L} t SET a = 1": "UPDATE TARGET t SET a = 1",
    f"DELETE FROM {L} WHERE a": "DELETE FROM TARGET AS `o` WHERE a",
    f"MERGE INTO {L} USING {L} s ON a = b WHEN MATCHED THEN DELETE": f"MERGE INTO TARGET AS `o` USING {V} s ON a = b WHEN MATCHED THEN DELETE",
    f"MERGE WITH SCHEMA EVOLUTION INTO {L} USING {L} s ON a = b WHEN MATCHED THEN DELETE": f"MERGE WITH SCHEMA EVOLUTION INTO TARGET AS `o` USING {V} s ON a = b WHEN MATCHED THEN DELETE",
    f"INSERT WITH /* 🎉 */ SCHEMA EVOLUTION INTO {L} SELECT * FROM {L} x": f"INSERT WITH /* 🎉 */ SCHEMA EVOLUTION INTO TARGET SELECT * FROM {V} x",
    f"ALTER TABLE {L} ADD CONSTRAINT c CHECK (a > 0)": "ALTER TABLE TARGET ADD CONSTRAINT c CHECK (a > 0)",
    f"OPTIMIZE {L} ZORDER BY (a)": "OPTIMIZE TARGET ZORDER BY (a)",
    f"CREATE TEMPORARY VIEW v AS SELECT * FROM {L}": f"CREATE TEMPORARY VIEW v AS SELECT * FROM {V} AS `o`",
    f"CACHE TABLE c AS SELECT * FROM {L}": f"CACHE TABLE c AS SELECT * FROM {V} AS `o`",
    f"DESCRIBE TABLE {L}": f"DESCRIBE TABLE {V}",
    f"EXPLAIN COST SELECT * FROM {L} x": f"EXPLAIN COST SELECT * FROM {V} x",
    f"INSERT INTO db.t SELECT * FROM {L} x": f"INSERT INTO db.t SELECT * FROM {V} x",
    "SELECT * FROM lakefs.lake.v1.a.`b``c`.d": "SELECT * FROM `<v1:a/b``c/d>` AS `d`",
    "SELECT * FROM LAKEFS.lake.`main~1`./* x */a": "SELECT * FROM `<main~1:a>` AS `a`",
    "/* 🎉 */ SELECT '🎉' FROM lakefs.lake.v1.`🎉 é; --` -- 🎉": "/* 🎉 */ SELECT '🎉' FROM `<v1:🎉 é; -->` AS `🎉 é; --` -- 🎉",
}


@for_each(("text", "expected"), [each for each in REWRITTEN.items() if each[1]])
def test_names_are_replaced(text: str, expected: str) -> None:
    assert rewritten(text) == expected


IN_USE = {
    "SELECT o.id FROM o, db.o, lakefs.lake.v1.o x": "SELECT o.id FROM `<main:o>` AS `o`, db.o, `<v1:o>` x",
    "WITH o AS (SELECT * FROM o) SELECT * FROM O JOIN p": "WITH o AS (SELECT * FROM `<main:o>` AS `o`) SELECT * FROM O JOIN `<main:p>` AS `p`",
    "WITH a AS (SELECT 1), b AS (SELECT * FROM a, c), c AS (SELECT 2) SELECT * FROM a, b, c": "WITH a AS (SELECT 1), b AS (SELECT * FROM a, `<main:c>` AS `c`), c AS (SELECT 2) SELECT * FROM a, b, c",
    "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT (SELECT max(x) FROM a)": "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT (SELECT max(x) FROM a)",
    "SELECT * FROM (WITH o AS (SELECT 1) SELECT * FROM o) x, o": "SELECT * FROM (WITH o AS (SELECT 1) SELECT * FROM o) x, `<main:o>` AS `o`",
    "SELECT * FROM view1, range(3), explode(array(1)) e": "SELECT * FROM view1, range(3), explode(array(1)) e",
    "SELECT /*+ BROADCAST(o) */ * FROM o LATERAL VIEW explode(x) o2 AS y": "SELECT /*+ BROADCAST(o) */ * FROM `<main:o>` AS `o` LATERAL VIEW explode(x) o2 AS y",
    "CREATE TEMPORARY VIEW o AS SELECT * FROM o": "CREATE TEMPORARY VIEW o AS SELECT * FROM `<main:o>` AS `o`",
    "CACHE TABLE o AS SELECT 1": "CACHE TABLE o AS SELECT 1",
    "ALTER TABLE `tables/o` ADD COLUMNS (a INT)": "ALTER TABLE TARGET ADD COLUMNS (a INT)",
    "ALTER TABLE db.o ADD COLUMNS (a INT)": "ALTER TABLE db.o ADD COLUMNS (a INT)",
    "OPTIMIZE '/path'": "OPTIMIZE '/path'",
    "SET a = b": "SET a = b",
    "SHOW TABLES": "SHOW TABLES",
    "INSERT INTO o SELECT * FROM view1": "INSERT INTO TARGET SELECT * FROM view1",
    "INSERT INTO view1 SELECT * FROM view1": "INSERT INTO TARGET SELECT * FROM view1",
    "WITH o AS (SELECT 1) INSERT INTO o SELECT * FROM o": "WITH o AS (SELECT 1) INSERT INTO TARGET SELECT * FROM o",
    "MERGE INTO view1 USING view1 s ON a = b WHEN MATCHED THEN DELETE": "MERGE INTO TARGET AS `view1` USING view1 s ON a = b WHEN MATCHED THEN DELETE",
    "UPDATE view1 SET a = (SELECT max(a) FROM view1)": "UPDATE TARGET AS `view1` SET a = (SELECT max(a) FROM view1)",
    "DELETE FROM view1": "DELETE FROM TARGET AS `view1`",
    "ALTER TABLE view1 ADD COLUMNS (a INT)": "ALTER TABLE TARGET ADD COLUMNS (a INT)",
    "OPTIMIZE view1": "OPTIMIZE TARGET",
    "CREATE TABLE view1 AS SELECT * FROM view1": "CREATE TABLE TARGET AS SELECT * FROM view1",
    "DROP TABLE view1": "DROP TABLE TARGET",
}


@for_each(("text", "expected"), IN_USE.items())
def test_names_in_use_are_replaced(text: str, expected: str) -> None:
    assert rewritten(text, PLACE, ("view1",)) == expected
    assert rewritten(text.replace("lakefs.lake.v1.o", "y")) == text.replace("lakefs.lake.v1.o", "y")


REFUSED = {
    "SELECT * FROM lakefs.lake": "REPOSITORY.REF",
    "SELECT * FROM lakefs.lake.main": "REPOSITORY.REF",
    "SELECT * FROM lakefs.my-lake.main.t": "need backquotes",
    "SELECT * FROM lakefs.lake.main~1.t": "need backquotes",
    "SELECT * FROM lakefs.lake.main@.t": "need backquotes",
    f"SELECT * FROM {L} VERSION AS OF 3": "its ref is the version",
    f"SELECT * FROM {L} TIMESTAMP AS OF '2024-01-01' x": "its ref is the version",
    f"TRUNCATE TABLE {L}": "not possible",
    f"REFRESH TABLE {L}": "not possible",
    f"COPY INTO {L} FROM 'x'": "not possible",
    f"CREATE VIEW {L} AS SELECT 1": "not possible",
    f"EXPLAIN DELETE FROM {L}": "not possible",
    f"FROM x INSERT INTO {L} SELECT a INSERT INTO {L} SELECT b": "not possible",
    f"VACUUM {L}": "VACUUM is not possible .*'lakefs' at line 1, column 8: `sparklake gc run`",
    f"SELECT 1,\n  a b c FROM {L}": "'c' at line 2, column 7 is not understood",
    f"/* ü\n🎉 */ TABLE {L}": "TABLE is not .*'lakefs' at line 2, column 12: select its rows",
    f"INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT * FROM {L}": "'USING' at line 1",
    f"DESCRIBE DETAIL {L}": "'lakefs' at line 1, column 17: use DESCRIBE TABLE",
    f"DESC HISTORY {L}": "DESC HISTORY is not possible .* SHOW COMMITS",
    f"DESCRIBE HISTORY {L}": "DESCRIBE HISTORY is not possible .* SHOW COMMITS",
    f"SHOW TABLES IN {L}": "SHOW TABLES IN is not possible .*DESCRIBE TABLE, or `sparklake ls`",
    f"SHOW COLUMNS IN {L}": "use DESCRIBE TABLE",
    f"SHOW CREATE TABLE {L}": "use DESCRIBE TABLE",
    f"SELECT FROM WHERE {L}": "'WHERE' at line 1, column 13 is not understood",
    f"EXPLAIN\nEXTENDED SELECT\na b c FROM {L}": "'c' at line 3, column 5",
    f"BEGIN SELECT * FROM {L}; END": "BEGIN SELECT .* is not possible",
    f"SELECT * FROM {L}; DROP TABLE x": "not possible with a lake table",
    f"SELECT '{L}": "unclosed",
    f"ALTER TABLE {L} RENAME TO x": "not possible",
    f"ALTER TABLE x RENAME TO {L}": "not possible",
    f"ALTER VIEW {L} AS SELECT 1": "not possible",
    "SELECT * FROM lakefs.lake.2024.t": "`2024.t` in backquotes",
    f"SELECT * FROM {L} -- \\\n; x": "not possible",
    f"SELECT 1 -- \\\n FROM {L}": "must not end in a backslash",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_impossible_statements_are_refused(
    text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        rewritten(text)
    assert not caplog.records, "the error is enough"


UNKNOWN = {
    "TRUNCATE TABLE {}": True,
    "VACUUM {}": True,
    "RESTORE TABLE {} TO VERSION AS OF 1": True,
    "MSCK REPAIR TABLE {}": True,
    "LOAD DATA INPATH '/x' INTO TABLE {}": True,
    "FROM db.x INSERT INTO {} SELECT a INSERT OVERWRITE db.y SELECT b": True,
    "INSERT INTO {} REPLACE ON a = 1 SELECT 1": True,
    "CREATE TABLE IF NOT EXISTS {} (a INT) SOMETHING NEW": True,
    "BEGIN DELETE FROM {} WHERE a = 1; END": True,
    "REFRESH TABLE {}": False,
    "TABLE {}": False,
    "DESC TABLE {} col": False,
    "SELECT a b c FROM {}": False,
    "ANALYZE TABLE {} COMPUTE STATISTICS": False,
    "DECLARE x = (SELECT max(id) FROM {})": False,
    "SET VAR x = (SELECT max(id) FROM {})": False,
    "SHOW CREATE TABLE {}": False,
    "ALTER VIEW v AS SELECT * FROM {}": False,
}
"""Statements of unknown syntax, and whether they change the table."""


@for_each(("shape", "changes"), UNKNOWN.items())
def test_unknown_statements_are_sparks_without_a_table_of_the_ref(
    shape: str, changes: bool
) -> None:
    for name in ("o", "`tables/o`"):
        text, path = shape.format(name), name.strip("`")
        with pytest.raises(InvalidInputError, match=re.escape(f"{path!r} at line 1")):
            find_tables(text, PLACE, is_table=lambda each, path=path: each == path)
        if changes:
            with pytest.raises(InvalidInputError, match=re.escape(f"{path!r} at line 1")):
                find_tables(text, PLACE, is_view=lambda _: True)
        else:
            assert rewritten(text, PLACE) == text
            assert find_tables(text, PLACE, lambda _: True, lambda _: True).text == text
    for other in ("db.o", "delta.`/o`"):
        text = shape.format(other)
        statement = find_tables(text, PLACE, is_table=lambda each: each in ("o", "db", "/o"))
        assert statement.rewritten(str, "TARGET") == text


SPARKS = """
VALUES (1, 2)
DECLARE VARIABLE o INT DEFAULT 5
EXECUTE IMMEDIATE 'SELECT 1' INTO o
ADD JAR '/o.jar'
DESCRIBE FUNCTION EXTENDED o
DESC DATABASE o
DESCRIBE QUERY SELECT 1
DROP DATABASE o
DROP VIEW IF EXISTS o
DROP TEMPORARY FUNCTION IF EXISTS o
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1
CREATE DATABASE o
SET o = o
SHOW TABLES IN o
CALL o(a => 1)
UNCACHE TABLE o
SELECT lakefs.o FROM db.t AS lakefs
SELECT x.lakefs.o.b.c FROM db.t AS x
GRANT SELECT ON lakefs TO y
this is no SQL
""".strip().splitlines()


@for_each("text", SPARKS)
def test_what_names_no_lake_table_is_sparks_after_use(text: str) -> None:
    names = () if text.startswith(("DECLARE", "EXECUTE", "CALL")) else ("o",)
    statement = find_tables(text, PLACE, is_table=lambda each: each in names)
    assert statement.rewritten(str, "TARGET") == text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_quoted_names_are_one_identifier(path: str) -> None:
    name = TableName("lake", "main", path)
    statement = find_tables(f"SELECT * FROM {name} x; ")
    assert [each.table for each in statement.sources] == [name]
    assert len(split(f"SELECT * FROM {name}; SELECT '{{}}'")) == 2


def test_actions() -> None:
    actions = {
        f"INSERT INTO {L} SELECT 1": Action.INSERT,
        f"DELETE FROM {L}": Action.EDIT,
        f"CREATE TABLE {L} AS SELECT 1": Action.CREATE,
        f"DROP TABLE IF EXISTS {L}": Action.DROP,
        f"SELECT * FROM {L}": Action.READ,
    }
    for text, action in actions.items():
        assert find_tables(text).action is action
    assert find_tables(f"DROP TABLE IF EXISTS {L}").has_condition


@pytest.mark.parametrize(
    ("text", "query", "columns"),
    [
        (f"INSERT INTO {L} SELECT 1", "SELECT 1", None),
        (f"INSERT INTO TABLE {L} (b, `a``c`) (SELECT 1, 2);", "(SELECT 1, 2)", ["b", "a`c"]),
        (f"INSERT INTO {L} (SELECT 1)", "(SELECT 1)", None),
        (
            f"WITH x AS (SELECT 1) INSERT INTO {L} SELECT * FROM x",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            None,
        ),
        (f"INSERT INTO {L} VALUES (1), (';')", "VALUES (1), (';')", None),
        (f"INSERT INTO {L} PARTITION (a = ')', b) (c) (SELECT 1)", "(SELECT 1)", ["c"]),
        (f"INSERT OVERWRITE {L} PARTITION (b) BY NAME SELECT 1 AS b", "SELECT 1 AS b", None),
    ],
)
def test_the_query_of_an_insert(text: str, query: str, columns: list[str] | None) -> None:
    statement = find_tables(text)
    parts = inserted_query(statement)
    assert "".join(statement.rewritten(str, "", *each) for each in parts.parts) == query
    assert parts.columns == columns


def test_the_partition_of_an_insert() -> None:
    clause = (
        "PARTITION (a = 'x\\'y)''', b = -1, c = DATE'2026-07-01', d = true, e = NULL, `f g`, h=3L)"
    )
    partition = inserted_query(find_tables(f"INSERT INTO {L} {clause} SELECT 1")).partition
    assert partition == {
        "a": "'x\\'y)'''",
        "b": "-1",
        "c": "DATE'2026-07-01'",
        "d": "true",
        "e": "NULL",
        "f g": None,
        "h": "3L",
    }


@pytest.mark.parametrize("value", ["1 + 1", "rand()", "(SELECT 1)", ":day", "?", "x"])
def test_values_of_partitions_are_constants(value: str) -> None:
    with pytest.raises(InvalidInputError, match="takes columns and constants"):
        inserted_query(find_tables(f"INSERT INTO {L} PARTITION (a = {value}) SELECT 1"))


def test_files_have_no_schema_evolution() -> None:
    with pytest.raises(InvalidInputError, match="needs a Delta table"):
        inserted_query(find_tables(f"INSERT WITH SCHEMA EVOLUTION INTO {L} SELECT 1"))


def test_the_query_of_a_new_table() -> None:
    text = f"CREATE OR REPLACE TABLE {L} USING Delta PARTITIONED BY (day, h) AS WITH x AS (SELECT 1 AS day) SELECT * FROM x"
    new = created_table(find_tables(text))
    assert (new.format, new.partition_by, new.mode) == ("delta", ["day", "h"], "overwrite")
    assert text[slice(*new.query.parts[0])].startswith("WITH x AS")
    assert (
        created_table(find_tables(f"CREATE TABLE IF NOT EXISTS {L} AS SELECT 1")).mode == "ignore"
    )
    for more in (
        "COMMENT 'x'",
        "TBLPROPERTIES ('a' = 'b')",
        "LOCATION '/x'",
        "CLUSTER BY (a)",
        "OPTIONS ('a' = 'b')",
    ):
        with pytest.raises(InvalidInputError):
            created_table(find_tables(f"CREATE TABLE {L} USING delta {more} AS SELECT 1 AS a"))


class Walked(list[Token]):
    """Tokens that count how often they are walked through."""

    walks = 0

    def __iter__(self) -> Iterator[Token]:
        self.walks += 1
        return super().__iter__()


def test_comments_are_checked_in_linear_time() -> None:
    """A statement is long, such as with the rows of a seed of dbt."""

    def walks(values: int) -> int:
        text = f"INSERT INTO {L} VALUES (1{', 1' * values})"
        tokens = Walked(scan(text))
        check_comments(text, tokens)
        return tokens.walks

    assert walks(80) == walks(8) > 0


def test_the_columns_of_a_new_table() -> None:
    columns = "id BIGINT, `a``b` decimal(10, 2), tags array<struct<k: string>>"
    new = created_table(find_tables(f"CREATE TABLE {L} ({columns}) USING delta"))
    assert new.query == (
        "SELECT CAST(NULL AS BIGINT) AS `id`, CAST(NULL AS DECIMAL(10, 2)) AS `a``b`, "
        "CAST(NULL AS ARRAY<STRUCT<k: STRING>>) AS `tags` WHERE false"
    )
    for column in ("a INT NOT NULL", "a INT COMMENT 'x'", "a INT DEFAULT 1", "PRIMARY KEY (a)"):
        with pytest.raises(InvalidInputError, match="only a name and a type"):
            created_table(find_tables(f"CREATE TABLE {L} ({column}) USING delta"))
    for kind in ("VARCHAR(3)", "CHAR(3)", "ARRAY<STRUCT<k: VARCHAR(3)>>"):
        with pytest.raises(InvalidInputError, match="'a b' would lose its limit"):
            created_table(find_tables(f"CREATE TABLE {L} (`a b` {kind}) USING delta"))
    for text in (f"CREATE TABLE {L}", f"CREATE TABLE {L} (a INT) AS SELECT 1 AS a"):
        with pytest.raises(InvalidInputError, match="either columns or rows"):
            created_table(find_tables(text))


def test_scripts_are_split_at_semicolons() -> None:
    script = "SELECT ';' /* ; /* ; */ ; */; -- ;\n\nSELECT `a;``;`;;\n BEGIN SELECT 1; END"
    assert split(script) == [
        "SELECT ';' /* ; /* ; */ ; */",
        " -- ;\n\nSELECT `a;``;`",
        "\n BEGIN SELECT 1; END",
    ]
    assert split(" -- nothing\n ; ") == []
    with pytest.raises(InvalidInputError, match="backslash"):
        split("SELECT 1 -- a \\\n; DROP TABLE x")
