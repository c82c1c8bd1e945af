"""Times and sums at the ends of what Spark holds."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Lake, Repository
from sparklake.errors import SparklakeError
from sparklake.graveler.entries import Entry
from sparklake.graveler.sums import MAX_SUM
from sparklake.graveler.times import FIRST_MICROSECOND, LAST_MICROSECOND, SECOND
from tests.support.foreign import foreign_record, restored_tree
from tests.support.lakes import stage_sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = "path string, size bigint, checksum string, address string, mtime timestamp"


def micros_of(repo: Repository, ref: str) -> dict[str, int]:
    frame = repo.objects(ref).to_df().selectExpr("path", "unix_micros(mtime) AS at")
    return {row["path"]: row["at"] for row in frame.collect()}


def test_times_of_others_are_rows(lake: Lake, tmp_path: Path) -> None:
    times = {
        "a": (1_700_000_000_000 * SECOND, LAST_MICROSECOND),
        "b": ((1 << 62) * SECOND, LAST_MICROSECOND),
        "c": (-(1 << 62) * SECOND, FIRST_MICROSECOND),
        "d": (10_413_792_000 * SECOND, 10_413_792_000_000_000),
    }
    records = [
        foreign_record(path, Entry(f"data/{path}", 1, "c", mtime))
        for path, (mtime, _) in times.items()
    ]
    repo = restored_tree(lake, tmp_path / "ns", records, date=1 << 40)
    assert micros_of(repo, "main") == {path: shown for path, (_, shown) in times.items()}
    for frame in (repo.log("main").to_df(), repo.changes("main").to_df()):
        assert frame.selectExpr("max(year(creation_date)) AS year").collect()[0]["year"] == 9999
    assert repo.diff("main~1", "main").to_df().count() == len(times)


def test_times_of_a_frame_are_staged(repo: Repository, spark: SparkSession) -> None:
    never = datetime(9999, 12, 31, tzinfo=timezone.utc)
    frame = spark.createDataFrame([("k", 1, "c", "s3://elsewhere/k", never)], ROWS)
    repo.branch("main").stage(frame)
    assert micros_of(repo, "main$") == {"k": int(never.timestamp()) * 1_000_000}
    late = frame.selectExpr(
        "path", "size", "checksum", "address", "timestamp_micros(300000000000000000) AS mtime"
    )
    with pytest.raises(SparklakeError, match="outside the years 1 to 9999"):
        repo.branch("main").stage(late)


def test_sums_stop_at_the_largest_number(repo: Repository) -> None:
    sizes = {f"{folder}/{at}": MAX_SUM for folder in "ab" for at in range(40)} | {"c/0": 5}
    stage_sizes(repo.branch("main"), sizes)
    repo.branch("main").commit("huge")
    frame = repo.diff("main~1", "main").by_folder().to_df()
    assert dict(frame.dtypes)["bytes_added"] == "bigint"
    assert {row["path"]: row["bytes_added"] for row in frame.collect()} == {
        "a/": MAX_SUM,
        "b/": MAX_SUM,
        "c/": 5,
    }
