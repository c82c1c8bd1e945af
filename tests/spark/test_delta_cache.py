"""A long session's memory does not grow with each write to a Delta table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Repository

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def cached_logs(spark: SparkSession, folder: Path) -> list[str]:
    """Return the keys of Delta's cache for tables below a folder."""
    jvm: Any = spark._jvm
    delta_log = getattr(jvm, "org.apache.spark.sql.delta.DeltaLog$").__getattr__("MODULE$")
    cache = delta_log.getOrCreateCache(spark._jsparkSession.sessionState().conf())
    keys = [each.toString() for each in cache.asMap().keySet()]
    return [each for each in keys if str(folder) in each]


@pytest.mark.system
def test_writes_and_edits_leave_no_log_in_the_cache(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    main, rows = repo.branch("main"), spark.range(3)
    for _ in range(2):
        main.write(rows, "tables/t", "delta", mode="append")
    with main.edit_delta("tables/t") as location:
        spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 1")
        assert len(cached_logs(spark, tmp_path)) == 1
    with suppress(ZeroDivisionError), main.edit_delta("tables/t") as location:
        assert spark.read.format("delta").load(location).count() == 4
        raise ZeroDivisionError
    assert cached_logs(spark, tmp_path) == []
