"""The format lakefs beside Spark's own readers: python -m benchmarks.lakefs_format -n 1000000.

One table of Parquet files is written and read in both ways, each step several times; the table
shows medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import sparklake
from benchmarks.spark import found_jars, spark_environment
from sparklake.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TABLE = "lakefs://lake/main/tables/t"

Step = Callable[["DataFrame"], object]

READS: Mapping[str, Step] = {
    "count all rows": lambda rows: rows.count(),
    "sum of one of six columns": lambda rows: rows.agg({"price": "sum"}).collect(),
    "all columns": lambda rows: rows.write.format("noop").mode("overwrite").save(),
    "one of 20 partitions": lambda rows: (
        rows.where("day = 7").write.format("noop").mode("overwrite").save()
    ),
    "100 rows by a filter": lambda rows: rows.where("id < 100").agg({"price": "sum"}).collect(),
}


def main() -> None:
    """Print a table of seconds for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1_000_000, help="rows")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each step")
    args = parser.parse_args()

    os.environ.update(spark_environment())
    os.environ["SPARKLAKE_JARS"] = str(found_jars()[0].parent)
    with (
        tempfile.TemporaryDirectory(prefix="lakefs-format-") as folder,
        sparklake.connect(home=folder) as lake,
    ):
        spark = spark_session()
        lake.create_repository("lake", str(Path(folder) / "storage"))
        spark.conf.set(PUSHDOWN, "true")
        lake.register()
        rows = _rows(spark, args.n).cache()
        rows.count()
        print("| step | repo.read, branch.write | lakefs | ratio |\n| --- | ---: | ---: | ---: |")
        _show("write", args.repeat, _writes(lake, rows))
        for name, step in READS.items():
            ways = (
                lambda step=step: step(lake.read.load(TABLE)),
                lambda step=step: step(spark.read.format("lakefs").load(TABLE)),
            )
            _show(name, args.repeat, ways)
        spark.stop()


def _rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr(
        "id",
        "concat('customer ', id % 1000) AS customer",
        "id / 7 AS price",
        "timestamp_seconds(1700000000 + id) AS at",
        "sha2(string(id), 256) AS text",
        f"int(id * 20 div {count}) AS day",
    )


def _writes(lake: sparklake.Lake, rows: DataFrame) -> tuple[Callable[[], object], ...]:
    own = rows.write.format("lakefs").mode("overwrite").option("partitionBy", "day")
    return (
        lambda: lake.write(rows).mode("overwrite").partitionBy("day").parquet(TABLE),
        lambda: own.save(f"{TABLE}2"),
    )


def _show(name: str, repeat: int, ways: tuple[Callable[[], object], ...]) -> None:
    seconds = []
    for way in ways:
        way()
        seconds.append(statistics.median(_timed(way) for _ in range(repeat)))
    ours, theirs = seconds
    print(f"| {name} | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.1f} |", flush=True)


def _timed(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
