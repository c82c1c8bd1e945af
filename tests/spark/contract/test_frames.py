"""What a log and the changes of paths are as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from sparklake import Repository
from sparklake.engine.ddl import spark_ddl
from sparklake.verbs.history.log_rows import LOG_SCHEMA
from tests.spark.contract.conftest import PATHS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.connect
def test_a_log_is_a_frame(grown: Repository, spark: SparkSession) -> None:
    log = grown.log("main")
    frame = log.to_df()
    assert (
        frame.schema.simpleString()
        == spark.createDataFrame([], spark_ddl(LOG_SCHEMA)).schema.simpleString()
    )
    rows = frame.collect()
    commits = list(log)
    assert [row["id"] for row in rows] == [each.id for each in commits]
    assert [tuple(row["parents"]) for row in rows] == [each.parents for each in commits]
    assert [row["metadata"] for row in rows] == [each.metadata for each in commits]
    assert [row["message"] for row in rows][:2] == ["some, ünd more", "all"]
    seconds = frame.selectExpr("unix_timestamp(creation_date) as at").collect()
    assert [row["at"] for row in seconds] == [each.creation_date for each in commits]
    assert log.to_arrow().column("id").to_pylist() == [each.id for each in commits]
    assert grown.log("main", path="none").to_df().collect() == []


@pytest.mark.connect
def test_changes_are_a_frame(grown: Repository, spark: SparkSession) -> None:
    head, before, _ = grown.log("main")
    found = grown.changes("main", "k/00").to_df()
    expected = [
        (path, head if path == "k/007" else before) for path in PATHS[:10] if path[-1] != "1"
    ]
    data = [(path, each.id, each.message) for path, each in expected]
    wanted = spark.createDataFrame(data, "path string, commit_id string, message string")
    names = ["path", "commit_id", "message"]
    assert_df_equality(found.select(names), wanted, ignore_nullable=True)
