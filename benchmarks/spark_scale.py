"""The effect of a second core on Spark: python -m benchmarks.spark_scale -n 5000000.

The same merge runs on local[1] and on local[2]. Each has its own process and session, which is warm
before the measurement. The repository is built once, by the fastest engine.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data, ours, report
from benchmarks.measuring import in_own_process, open_lake
from benchmarks.spark import spark_environment
from sparklake.config import Engine
from sparklake.session import LOGGING_OPTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = (1, 2)
TARGET = 1.6


def main() -> None:
    """Measure the merge and write the table."""
    parser = report.new_parser(__doc__, "spark")
    parser.add_argument("-n", type=int, default=5_000_000, dest="count", help="entries")
    parser.add_argument("--changes", default="1%", help="changed on each side: a number, or n%%")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-", dir=args.folder) as folder:
        rows = list(_measure(args, Path(folder)))
    notes = [
        f"A merge of {args.changes} random changes a side among {args.count:,} entries, best of "
        f"{args.reps} repetitions after one to warm up. The speed-up asked for is {TARGET}. "
        "CPU and memory are of the driver, the JVM and its Python workers."
    ]
    report.write(args, "A merge on one core of Spark, and on two", notes, rows)


def _measure(args: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    with open_lake(folder / "home", args.engine) as (lake, meter):
        base = data.write_base(folder / "base.arrow", args.count)
        with ours.new_subject(lake, meter, folder, args.count) as subject:
            subject.build(base)
            alone = None
            for number, cores in enumerate(CORES):
                # Changes of their own, since ranges that are there already cost less to write.
                seed = args.seed + 2 * number * (args.reps + 1)
                best = in_own_process(_merges, args, folder, subject.repo.name, cores, seed)
                alone = alone or best
                yield _row(args, cores, best, alone)


def _merges(args: Namespace, folder: Path, name: str, cores: int, seed: int) -> ours.Measured:
    """Merge several times in a session with so many cores; return the fastest merge."""
    os.environ.update(spark_environment())
    with open_lake(folder / "home", Engine.SPARK) as (lake, meter):
        session = open_session(folder, cores)
        subject = ours.Subject(lake, meter, lake.repository(name), args.count)
        d = ours.size_of(args.changes, args.count)
        _warm, *measured = [
            subject.merge("random", d, seed + 2 * repetition) for repetition in range(args.reps + 1)
        ]
        session.stop()
    return ours.quickest(measured)


def open_session(folder: Path, cores: int) -> SparkSession:
    """Start the session for the lake's engine."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(f"spark-scale-{cores}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
        .config("spark.driver.extraJavaOptions", LOGGING_OPTION)
        .getOrCreate()
    )


def _row(args: Namespace, cores: int, best: ours.Measured, alone: ours.Measured) -> dict[str, Any]:
    return {
        "master": f"local[{cores}]",
        "N": args.count,
        "changes a side": best.d,
        "wall, s": round(best.wall, 3),
        "speed-up": round(alone.wall / best.wall, 2),
        "CPU, s": round(best.usage.cpu, 2),
        "ranges read": best.ranges_read,
        "ranges written": best.ranges_written,
        "driver, MB": round(best.usage.driver_mb),
        "largest process below, MB": round(best.usage.worker_mb),
    }


if __name__ == "__main__":
    main()
