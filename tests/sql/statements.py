"""Statements of Spark SQL, by a table of generators and by hand."""

from __future__ import annotations

from itertools import product

# In these, {0} to {2} are relations.
SHAPES = (
    "SELECT * FROM {0}",
    "select a.*, x.`{{`.y from {0} as a where a.id in (select id from {1})",
    "SELECT /*+ BROADCAST(b), MERGEJOIN(a) */ a.id FROM {0} a JOIN {1} b ON a.id = b.id",
    "SELECT * FROM {0} a LEFT OUTER JOIN {1} b USING (id) CROSS JOIN {2} c",
    "SELECT * FROM {0} a LEFT ANTI JOIN {1} b ON a.x <=> b.x",
    "SELECT * FROM {0} a, LATERAL (SELECT * FROM {1} b WHERE a.id = b.id) AS s",
    "SELECT * FROM {0} LATERAL VIEW OUTER EXPLODE(items) t AS item",
    "SELECT * FROM {0} PIVOT (SUM(price) AS s FOR day IN ('a' AS x, 'b' AS y))",
    "SELECT * FROM {0} UNPIVOT (v FOR k IN (a, b)) AS u",
    "SELECT * FROM {0} a TABLESAMPLE (10 PERCENT)",
    "WITH x AS (SELECT * FROM {0}), y (n) AS (SELECT 1 FROM x) SELECT * FROM y, {1} AS z",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) FROM {0} t",
    "SELECT a, b, SUM(c) FROM {0} t GROUP BY GROUPING SETS ((a, b), (a), ()) HAVING SUM(c) > 0",
    "SELECT a FROM {0} x UNION ALL SELECT b FROM {1} y EXCEPT (SELECT c FROM {2} z) LIMIT 3",
    "SELECT EXISTS (SELECT 1 FROM {0} x WHERE x.a = 1), (SELECT MAX(a) FROM {1} y)",
    "SELECT TRANSFORM(xs, x -> x + 1), m['k'], s.f.g FROM {0} t SORT BY a",
    "FROM {0} x SELECT a, COUNT(DISTINCT b) FILTER (WHERE c) GROUP BY a",
    "SELECT CASE WHEN a THEN 'it''s; -- no' ELSE \"{{x}}\" END FROM {0} q -- {1}; a comment",
    "SELECT /* {1} /* nested; ` */ ' */ `a``b.c`, `{{`.`ü;` FROM {0} AS `x y`",
    "SELECT * FROM {0} a FULL JOIN {1} b ON a.k = b.k AND a.v BETWEEN -1 AND 1e3 OFFSET 2",
    "SELECT * FROM (SELECT id FROM {0} u WHERE NOT EXISTS (SELECT * FROM {1} w)) AS `s`",
    "(SELECT a FROM {0} x) INTERSECT ALL (SELECT a FROM {1} y) ORDER BY 1 DESC LIMIT ALL",
    "SELECT LAG(a, 1) IGNORE NULLS OVER w FROM {0} t WINDOW w AS (ORDER BY b ROWS 2 PRECEDING)",
    "SELECT /*+ SKEW('x') */ DISTINCT a FROM {0} t WHERE a LIKE ANY ('%;%', '--') /* {1} */",
    "WITH a AS (WITH b AS (SELECT * FROM {0}) SELECT * FROM b) SELECT * FROM a, {1} AS c",
    "EXPLAIN FORMATTED SELECT * FROM {0} x JOIN {1} y ON x.`a` = y.`a`",
)

RELATIONS = (
    "orders",
    "db.orders",
    "spark_catalog.db.`a b`",
    "delta.`/tmp/x y`",
    "`🎉`.`é``;`",
    "t1",
    "`lakefs.lake`.`main`",
    "c1.n1.`t``1`",
)

OTHERS = r"""
SELECT 'lakefs.lake.main.orders', "lakefs.lake.main.x"
SELECT 1 -- lakefs.lake.main.orders
SELECT /* lakefs.lake.main.orders */ 1
SELECT /*+ COALESCE(1) */ /*+ REBALANCE */ * FROM t
SELECT lakefs FROM t
SELECT lakefs.id FROM t AS lakefs
SELECT lakefs.a.b FROM (SELECT struct(1 AS a) AS lakefs)
WITH lakefs AS (SELECT 1 AS id) SELECT lakefs.id FROM lakefs
SELECT `lakefs.lake.main.orders` FROM t
SELECT r'C:\lakefs.', X'1F', 1.5BD, 3L, .5e3D, -1Y, DATE'2024-01-01', INTERVAL '1-2' YEAR TO MONTH
SELECT 'a' 'b', 'it\'s', "say \"x\"", '\\'
SELECT CAST(a AS DECIMAL(10, 2)), a::int, TRY_CAST(b AS MAP<STRING, ARRAY<INT>>) FROM t
SELECT * FROM range(10) r
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, name)
SELECT * FROM explode(array(1, 2)) AS x
SELECT ${value}, :name, ? FROM t
SELECT a FROM t WHERE a RLIKE '\\d+;' AND b NOT LIKE '%/_' ESCAPE '/' OR c BETWEEN 1 AND 2
SELECT * EXCEPT (a) FROM t
SELECT a FROM t DISTRIBUTE BY a SORT BY b
SELECT a FROM t CLUSTER BY a
SELECT a, GROUPING_ID() FROM t GROUP BY a WITH CUBE
SELECT a FROM t GROUP BY ALL ORDER BY ALL
SELECT named_struct('a', 1).a, array(1)[0], map('k', 'v')['k']
SELECT * FROM t VERSION AS OF 3
SELECT * FROM t TIMESTAMP AS OF '2024-01-01'
SELECT MAP_FILTER(m, (k, v) -> k > v) FROM t
SELECT a DIV b, a % b, ~a, a ^ b, a || b, a <=> b, !a FROM t
SELECT * FROM a NATURAL FULL JOIN b
SELECT * FROM (a JOIN b ON a.x = b.x) JOIN c
SELECT STREAM FROM t
FROM a INSERT INTO b SELECT x INSERT OVERWRITE TABLE c SELECT y
FROM t |> WHERE a > 1 |> SELECT a
VALUES (1, 2), (3, 4)
TABLE t
INSERT INTO t VALUES (1, 'a;b')
INSERT INTO TABLE db.t (a, b) SELECT 1, 2
INSERT INTO t BY NAME SELECT 1 AS a
INSERT INTO t REPLACE WHERE a = 1 SELECT * FROM s
INSERT OVERWRITE t PARTITION (day = '2024-01-01', hour) SELECT 1, 2
INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM t
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.x THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE
UPDATE t SET a = 1, b = 'x' WHERE c IS NOT NULL
DELETE FROM t AS x WHERE x.a IN (1, 2)
CREATE TABLE t (a INT COMMENT 'x; y', b STRING NOT NULL DEFAULT 'z') USING delta PARTITIONED BY (b)
CREATE OR REPLACE TABLE t USING parquet OPTIONS ('a' = 'b') LOCATION '/x' AS SELECT 1 AS a
CREATE TABLE a LIKE b
CREATE OR REPLACE TEMPORARY VIEW v (a, b) AS SELECT 1, 2
CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1
CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/x', header 'true')
CREATE FUNCTION f AS 'x.Y' USING JAR '/x.jar'
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1
CREATE DATABASE IF NOT EXISTS db COMMENT 'x' WITH DBPROPERTIES (a = b)
ALTER TABLE t ADD COLUMNS (x INT AFTER y, z STRING FIRST)
ALTER TABLE t SET TBLPROPERTIES ('delta.x' = 'true')
ALTER TABLE t RENAME TO u
ALTER TABLE t ADD PARTITION (day = '1') LOCATION '/x'
ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)
ALTER VIEW v AS SELECT 2
DROP TABLE IF EXISTS t PURGE
DROP VIEW v
DROP DATABASE db CASCADE
TRUNCATE TABLE t PARTITION (day = '1')
OPTIMIZE t WHERE day = '1' ZORDER BY (a, b)
VACUUM t RETAIN 168 HOURS DRY RUN
RESTORE TABLE t TO VERSION AS OF 3
DESCRIBE HISTORY t
DESCRIBE DETAIL delta.`/x`
DESCRIBE TABLE EXTENDED db.t PARTITION (a = 1)
DESCRIBE FUNCTION EXTENDED abs
SHOW TABLES IN db LIKE 'a*|b*'
SHOW COLUMNS IN t IN db
SHOW CREATE TABLE t
SHOW PARTITIONS t
SHOW TBLPROPERTIES t ('a')
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b
CACHE LAZY TABLE c OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT * FROM t
UNCACHE TABLE IF EXISTS c
REFRESH TABLE t
MSCK REPAIR TABLE t SYNC PARTITIONS
LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t PARTITION (a = 1)
ADD JAR '/a b.jar'
LIST FILES
SET spark.sql.shuffle.partitions = 5
SET TIME ZONE 'Europe/Berlin'
RESET spark.sql.x
USE db
USE CATALOG c
CLEAR CACHE
COMMENT ON TABLE t IS 'x'
CALL system.f(a => 1)
DECLARE VARIABLE x INT DEFAULT 5
EXECUTE IMMEDIATE 'SELECT 1' INTO x
GRANT SELECT ON t TO x
CONVERT TO DELTA parquet.`/x` PARTITIONED BY (a INT)
GENERATE symlink_format_manifest FOR TABLE t
BEGIN SELECT 1; SELECT 2; END
this is; no SQL
SELECT 'unclosed
SELECT `unclosed
SELECT /* unclosed
""".strip().splitlines()


def plain_statements() -> list[str]:
    """Return statements without lake tables."""
    triples = list(zip(RELATIONS, RELATIONS[1:], RELATIONS[2:], strict=False))
    generated = [
        shape.format(one, two, three) for shape, (one, two, three) in product(SHAPES, triples)
    ]
    odd = [f"\n\t /* ü */ {each}  -- end\n" for each in OTHERS[:40]]
    return [*generated, *OTHERS, *odd, *(f"{each} ;" for each in OTHERS[40:90])]
