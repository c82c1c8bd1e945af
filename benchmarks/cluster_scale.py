"""The growth of cost on a cluster: python -m benchmarks.cluster_scale --ns 1000000 50000000.

A standalone cluster of two workers with one core each imports N rows, commits, diffs and merges.
Workers have the package as an image would, with its kernels. Rows and changes are made by Spark, so
that the driver holds none. The slope is that of log(wall time) over log(N), by least squares: 0 is
a constant cost, 1 a linear one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data, report
from benchmarks.cluster import MASTER_HOST, Cluster, running_cluster
from benchmarks.measuring import Meter, in_own_process, open_lake
from benchmarks.scale import slope
from benchmarks.spark import spark_environment
from sparklake.config import Engine
from sparklake.session import LOGGING_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import sparklake

NS = (1_000_000, 5_000_000, 10_000_000, 50_000_000)
FEW = 100
SHARE = 100
"""One of so many entries is changed by the dense operations."""

_EXECUTOR_MEMORY, _WORKER_MEMORY = "1536m", "3g"
_ROWS_A_FILE = 1_000_000
_COLUMNS = (
    "format_string('data/part-%04d/obj-%012d.parquet', id div 10000, id) path",
    "pmod(id * 2654435761 + {version} * 97, 1000000007) size",
    "md5(cast(concat('etag-', id, '-{version}') as binary)) checksum",
    "timestamp_seconds(1700000000 + id div 100 + {version}) mtime",
    "concat('s3://bucket/data/', md5(cast(concat(id, '-{version}') as binary))) address",
)


def main() -> None:
    """Measure every N on a cluster of its own and write the table."""
    parser = report.new_parser(__doc__, "cluster")
    parser.add_argument("--ns", type=int, nargs="+", default=NS, help="entries, each in turn")
    args = parser.parse_args()
    rows = [row for count in args.ns for row in in_own_process(_measured, args, count)]
    notes = [
        "A standalone cluster of two workers on this machine, with one core and an executor of "
        f"{_EXECUTOR_MEMORY} each. Every operation runs once, as Spark jobs. The changes are "
        f"random: {FEW}, or 1% of all entries.",
        "The slope is of log(wall) over log(N): 0 does not grow, 1 is linear. CPU is of the "
        "driver, its JVM, the cluster and the Python workers. The CPU of processes that end is "
        "lost: too little is counted then, and ? says that more was lost than used. Memory is what "
        "a process has for itself: the driver's Python process, and the largest of the others, a "
        "JVM.",
    ]
    report.write(args, "How cost grows on a cluster", notes, rows, list(_table(rows)))


def _table(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows by operation, with the slope in the last one."""
    for op in dict.fromkeys(row["op"] for row in rows):
        same = [row for row in rows if row["op"] == op]
        grown = slope([(row["N"], row["wall, s"]) for row in same]) if len(same) > 1 else None
        for number, row in enumerate(same, 1):
            is_last = grown is not None and number == len(same)
            yield {**row, "slope": f"{grown:.2f}" if is_last else ""}


def _measured(args: Namespace, count: int) -> list[dict[str, Any]]:
    os.environ.update(spark_environment())
    with (
        tempfile.TemporaryDirectory(prefix="cluster-", dir=args.folder) as folder,
        open_lake(Path(folder, "home"), Engine.SPARK) as (lake, meter),
        running_cluster(Path(folder), _WORKER_MEMORY) as cluster,
    ):
        return list(_Run(lake, meter, cluster, Path(folder), count).rows())


class _Run:
    """The operations on one repository."""

    def __init__(
        self, lake: sparklake.Lake, meter: Meter, cluster: Cluster, folder: Path, count: int
    ) -> None:
        self._meter = meter
        self._cluster = cluster
        self._folder = folder
        self._count = count
        self._repo = lake.create_repository("cluster", f"{folder}/lake")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the measured operations in order."""
        rows = str(self._folder / "rows")
        with self._session() as spark:
            files = -(-self._count // _ROWS_A_FILE)
            _entries(spark.range(0, self._count, 1, files), 0).write.parquet(rows)
        # What a session shuffles stays until it ends.
        with self._session() as spark:
            _warm_up(spark)
            main = self._repo.branch("main")
            source = spark.read.parquet(rows)
            yield self._row(
                "import", self._count, lambda: main.import_objects(source, replace=True)
            )
        shutil.rmtree(rows)
        with self._session() as spark:
            _warm_up(spark)
            yield from self._changes(spark)

    def _changes(self, spark: SparkSession) -> Iterator[dict[str, Any]]:
        few = [f"few-{side}" for side in range(2)]
        for side, name in enumerate(few):
            branch = self._repo.create_branch(name, "main")
            branch.stage(data.changes(self._count, FEW, "random", side + 1).rows())
            row = self._row(f"commit {FEW}", FEW, partial(branch.commit, "few"))
            if not side:
                yield row
        yield self._row(f"diff {FEW}", FEW, lambda: self._differences(few[0]))
        yield self._row(f"merge {FEW} a side", FEW, lambda: self._merge(*few))
        dense = [f"dense-{side}" for side in range(2)]
        for side, name in enumerate(dense):
            branch = self._repo.create_branch(name, "main")
            changed = self._some(spark, side)
            d = changed.count()
            row = self._row("stage 1%", d, partial(branch.stage, changed))
            if not side:
                yield row
            row = self._row("commit 1%", d, partial(branch.commit, "dense"))
            if not side:
                yield row
        yield self._row("diff 1%", d, lambda: self._differences(dense[0]))
        yield self._row("merge 1% a side", d, lambda: self._merge(*dense))

    def _some(self, spark: SparkSession, side: int) -> DataFrame:
        """Return about 1% of all entries, changed. The sides have different ones."""
        ids = spark.range(0, self._count)
        return _entries(ids.where(f"pmod(xxhash64(id), {SHARE}) = {side}"), side + 1)

    def _differences(self, name: str) -> int:
        return sum(batch.num_rows for batch in self._repo.diff("main", name).batches())

    def _merge(self, source: str, dest: str) -> None:
        self._repo.merge(source, dest)

    def _row(self, op: str, d: int, operation: Callable[[], object]) -> dict[str, Any]:
        _result, usage = self._meter.measure(operation)
        row = {
            "op": op,
            "N": self._count,
            "objects": d,
            "wall, s": round(usage.wall, 2),
            "CPU, s": round(usage.cpu, 2) if usage.cpu > 0 else "?",
            "driver, MB": round(usage.driver_mb),
            "largest other process, MB": round(usage.worker_mb),
        }
        print(row, flush=True)
        return row

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.host": MASTER_HOST,
            "spark.driver.bindAddress": MASTER_HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": _EXECUTOR_MEMORY,
            "spark.local.dir": str(self._folder / "spill"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": (self._folder / "warehouse").as_uri(),
            "spark.driver.extraJavaOptions": LOGGING_OPTION,
            "spark.executorEnv.PYTHONPATH": str(self._cluster.package.parent),
        }
        builder = SparkSession.builder.master(self._cluster.master).appName("cluster-scale")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def _entries(ids: DataFrame, version: int) -> DataFrame:
    return ids.selectExpr(*(each.format(version=version) for each in _COLUMNS))


def _warm_up(spark: SparkSession) -> None:
    """Start the executors and their Python workers."""
    spark.range(0, 1000, 1, 4).mapInArrow(lambda batches: batches, "id bigint").collect()


if __name__ == "__main__":
    main()
