"""A session without Spark: what reaches it, and what does not."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from sparklake.errors import InvalidInputError
from sparklake.sql.session import SqlSession


def test_statements_without_lake_tables_reach_spark_as_typed() -> None:
    spark = Mock()
    session = SqlSession(Mock(side_effect=AssertionError), lambda: spark)
    text = " /* x */ SELECT :a, lakefs FROM t -- 🎉 ;\n"
    assert session.run_to_df(text, {"a": 1}) is spark.sql.return_value
    spark.sql.assert_called_once_with(text, {"a": 1})
    session.run_to_df("this; ".replace(";", ""))
    spark.sql.assert_called_with("this ")


def test_parameters_are_for_spark_only() -> None:
    session = SqlSession(Mock(), Mock(side_effect=AssertionError))
    with pytest.raises(InvalidInputError, match="parameter markers"):
        session.run("SHOW TAGS IN lakefs.lake", {"a": 1})
