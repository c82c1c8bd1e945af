"""What Spark 3.5 is told that would register formats, and has their rows all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparklake import Lake
from sparklake.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_streams_name_the_diffs_of_rows(lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(MissingDependencyError, match=r"requires Spark 4\..*repo\.diff_table"):
        lake.read_stream("lakefs://lake/main/tables/events")
    with pytest.raises(MissingDependencyError, match=r"requires Spark 4.*repo\.diff_table"):
        lake.register(spark)
