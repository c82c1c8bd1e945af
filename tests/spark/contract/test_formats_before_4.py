"""What Spark 3.5 is told that would register formats, and has their rows all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparklake import Lake, Repository
from sparklake.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_what_has_the_same_rows_is_said(lake: Lake, grown: Repository, spark: SparkSession) -> None:
    said = r"require Spark 4: use repo\.objects\(ref\)\.to_df\(\)"
    with pytest.raises(MissingDependencyError, match=said):
        lake.register(spark)
    rows = grown.objects("main").to_df().collect()
    assert [row.path for row in rows] == [each.path for each in grown.objects("main")]


def test_streams_name_the_diffs_of_rows(lake: Lake) -> None:
    with pytest.raises(MissingDependencyError, match=r"requires Spark 4\..*repo\.diff_table"):
        lake.read_stream("lakefs://lake/main/tables/events")
