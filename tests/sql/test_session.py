"""A session without Spark: what reaches it, and what does not."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.errors import AnalysisException, ParseException

from sparklake.errors import AlreadyExistsError, InvalidInputError, RefNotFoundError
from sparklake.sql.session import SqlSession
from sparklake.testing.lakes import memory_lake
from sparklake.uri import RefUri


def test_statements_without_lake_tables_reach_spark_as_typed() -> None:
    spark = Mock()
    session = SqlSession(Mock(side_effect=AssertionError), lambda: spark)
    text = " /* x */ SELECT :a, lakefs FROM t -- 🎉 ;\n"
    assert session.run_to_df(text, {"a": 1}) is spark.sql.return_value
    spark.sql.assert_called_once_with(text, {"a": 1})
    session.run_to_df("this; ".replace(";", ""))
    spark.sql.assert_called_with("this ")


def test_after_use_only_names_of_tables_are_ours(tmp_path: Path) -> None:
    spark = Mock()
    spark.catalog.getTable.side_effect = AnalysisException("no view")
    with memory_lake() as lake:
        repo = lake.create_repository("shop", str(tmp_path / "shop"))
        repo.branch("main").put("t/orders/a.parquet", b"a")
        repo.branch("main").put("file", b"b")
        session = SqlSession(lake.repository, lambda: spark)
        session.use(RefUri("shop", "main"))
        for text in ("VALUES (1)", "REFRESH TABLE `t/o`", "DECLARE x INT", "TABLE orders"):
            assert session.run_to_df(text) is spark.sql.return_value
            spark.sql.assert_called_with(text)
        calls = spark.sql.call_count
        for text in ("REFRESH TABLE `t/orders`", "TABLE t", "TABLE file", "VACUUM nothing"):
            with pytest.raises(InvalidInputError, match="is not possible with a lake table"):
                session.run_to_df(text)
        with pytest.raises(AlreadyExistsError, match="already exists; IF NOT EXISTS accepts it"):
            session.run("CREATE BRANCH main")
        assert session.run("CREATE BRANCH IF NOT EXISTS main")
        assert spark.sql.call_count == calls
        spark.sql.side_effect = ParseException("syntax")
        with pytest.raises(InvalidInputError, match="did you mean COMMIT"):
            session.run("COMIT MESSAGE 'x'")
        with pytest.raises(ParseException):
            session.run("SELECT FROM")
        calls = spark.sql.call_count
        with pytest.raises(InvalidInputError, match=r"'SELEC' at line 1, .* did you mean SELECT"):
            session.run("SELEC 1")
        assert spark.sql.call_count == calls


def test_parameters_are_for_spark_only() -> None:
    session = SqlSession(Mock(), Mock(side_effect=AssertionError))
    with pytest.raises(InvalidInputError, match="parameter markers"):
        session.run("SHOW TAGS IN lakefs.lake", {"a": 1})


def test_a_ref_needs_no_repository_in_a_lake_of_one(tmp_path: Path) -> None:
    with memory_lake() as lake:
        lake.create_repository("shop", str(tmp_path / "shop"))
        assert lake.session("main").ref == "lakefs://shop/main"
        with pytest.raises(RefNotFoundError):
            lake.session("nowhere")
        lake.create_repository("sales", str(tmp_path / "sales"))
        with pytest.raises(InvalidInputError, match="has 2: write lakefs://REPOSITORY/main"):
            lake.session("main")
