"""How many of our functions does a warm verb call? `python -m benchmarks.call_counts`.

Each verb runs three times in one process, and the calls of the last run are counted, in all of its
threads. Not counted: functions of libraries, generated ones, comprehensions, and generators that
continue.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import sparklake
from benchmarks.spark import found_jars
from sparklake.session import spark_session

PACKAGE = str(Path(sparklake.__file__).parent)
RUNS = 3


def main() -> None:
    """Print the calls of each verb, and the modules with most of them."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*_settings(), "pyspark-shell"])
    with (
        tempfile.TemporaryDirectory(prefix="call-counts-") as folder,
        sparklake.connect(home=folder, engine="local") as lake,
    ):
        spark = spark_session()
        repo = lake.create_repository("lake", str(Path(folder) / "ns"))
        print("| verb | calls | most of them in |\n| --- | ---: | --- |", flush=True)
        for name, prepare in _verbs(lake, repo, spark).items():
            for _ in range(RUNS):
                repo.branch("main").commit("the run before", allow_empty=True)
                modules = _counted(prepare())
            most = ", ".join(f"{each} {count}" for each, count in modules.most_common(4))
            print(f"| {name} | {modules.total():,} | {most} |", flush=True)
        spark.stop()


def _verbs(
    lake: sparklake.Lake, repo: sparklake.Repository, spark: Any
) -> dict[str, Callable[[], Callable[[], object]]]:
    """Return functions that prepare a run of a verb, and return it."""
    main = repo.branch("main")
    orders, source = "lakefs://lake/main/tables/orders", "lakefs://lake/main/tables/source"
    rows = spark.range(10).selectExpr("id", "cast(id AS string) AS name")
    for path in (orders, source):
        lake.write(rows).format("delta").save(path)
    main.commit("two tables")
    place = tempfile.mkdtemp(prefix="call-counts-stream-", dir=repo.info.storage_namespace[7:])

    def commit() -> Callable[[], object]:
        main.put("a", os.urandom(8))
        return lambda: main.commit("one object")

    def batch() -> Callable[[], object]:
        lake.write(rows).format("delta").mode("append").save(source)
        main.commit("more rows")
        return lambda: _stream(lake, source, place)

    merge = (
        "MERGE INTO lakefs.lake.main.`tables/orders` t USING (SELECT 3 AS id, 'x' AS name) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = s.name"
    )
    return {
        "commit of one object": commit,
        "append to a Delta table": lambda: partial(
            main.write, rows, "tables/orders", format="delta", mode="append"
        ),
        "SQL MERGE into a Delta table": lambda: partial(lake.sql, merge),
        "batch of a stream from and to Delta tables": batch,
        "read of a Delta table": lambda: lambda: lake.read.load(orders).collect(),
    }


def _stream(lake: sparklake.Lake, source: str, place: str) -> None:
    query = (
        lake.write_stream(lake.read_stream(source))
        .option("checkpointLocation", place)
        .trigger(availableNow=True)
        .start("lakefs://lake/main/tables/sink")
    )
    query.awaitTermination()


def _counted(verb: Callable[[], object]) -> Counter[str]:
    """Count the calls of the package's functions while a verb runs, by module."""
    modules: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file, name = code.co_filename, code.co_name
        if event != "call" or name.startswith("<") or not file.startswith(PACKAGE):
            return
        if not code.co_flags & CO_GENERATOR or frame.f_lasti < 0:
            modules[file.removeprefix(f"{PACKAGE}/")] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        verb()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return modules


def _settings() -> list[str]:
    settings = {
        "spark.jars": ",".join(map(str, found_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    return [f"--conf {name}={value}" for name, value in settings.items()]


if __name__ == "__main__":
    main()
