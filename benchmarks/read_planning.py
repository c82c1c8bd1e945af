"""The planning time of a read of many files: python -m benchmarks.read_planning -n 100000.

A table of small Parquet files in 100 partitions is imported. Then one partition is read at a ref:
through the generated Delta log, and from a list of files. Before the measurement, Spark and Delta
read a small table in both ways. The table exists under several names, each with its own log, to
show a first read in a session that has already read as many files.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import sparklake
from benchmarks.spark import found_jars
from sparklake.session import spark_session
from sparklake.verbs.tables.read import _read_files
from sparklake.verbs.tables.version import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Step = Callable[[], object]

PARTITIONS = 100
WARM_UP = 200


def main() -> None:
    """Print a table of the costs of a read, step by step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, nargs="+", default=[10_000, 100_000], help="files")
    parser.add_argument("--tables", type=int, default=4, help="names of the table, one by one")
    parser.add_argument(
        "--bare", action="store_true", help="take the summary away from every second log"
    )
    parser.add_argument("--memory", default="1g", help="of the JVM of Spark's driver")
    parser.add_argument("--paths-up-to", type=int, default=10_000, help="files told of one by one")
    args = parser.parse_args()
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*_settings(args.memory), "pyspark-shell"])
    with (
        tempfile.TemporaryDirectory(prefix="read-planning-") as folder,
        sparklake.connect(home=folder, engine="local") as lake,
    ):
        spark = spark_session()
        print("| files | table | what | seconds | CPU | load |")
        print("| ---: | ---: | --- | ---: | ---: | ---: |")
        for files in (WARM_UP, *args.n):
            repo = _imported(lake, Path(folder), files, args.tables)
            for number in range(args.tables):
                _show(repo, files, number, args)
        spark.stop()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of this process beside the JVM's {args.memory}: {megabytes:.0f} MB")


def _show(repo: sparklake.Repository, files: int, number: int, args: argparse.Namespace) -> None:
    path = _path(number)
    steps = _through_a_view(repo, path, bare=args.bare and number % 2 == 0)
    if files <= args.paths_up_to and not number:
        steps |= _by_paths(repo, path)
    for what, step in steps.items():
        wall, cpu = _timed(step)
        if files != WARM_UP:
            load = os.getloadavg()[0]
            row = f"| {files:,} | {number + 1} | {what} | {wall:.2f} | {cpu:.2f} | {load:.0f} |"
            print(row, flush=True)


def _path(number: int) -> str:
    return f"table-{number}"


def _settings(memory: str) -> list[str]:
    settings = {
        "spark.jars": ",".join(map(str, found_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    confs = (f"--conf {name}={value}" for name, value in settings.items())
    return [f"--driver-memory {memory}", *confs]


def _imported(lake: sparklake.Lake, folder: Path, files: int, tables: int) -> sparklake.Repository:
    place = folder / f"files-{files}"
    body = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    for number in range(files):
        target = place / f"p={number % PARTITIONS}" / f"part-{number:07}.parquet"
        if number < PARTITIONS:
            target.parent.mkdir(parents=True)
            pq.write_table(body, target)
        else:
            # File systems allow some ten thousand names of one file.
            first = place / target.parent.name / f"part-{number % PARTITIONS:07}.parquet"
            os.link(first, target)
    repo = lake.create_repository(f"files-{files}", str(folder / f"namespace-{files}"))
    for number in range(tables):
        repo.branch("main").import_objects(str(place), _path(number))
    return repo


def _through_a_view(repo: sparklake.Repository, path: str, *, bare: bool) -> dict[str, Step]:
    def write() -> None:
        place = Path(repo.view("main", path).removeprefix("file://"))
        if bare:
            for each in place.rglob("*.crc"):
                each.unlink()

    kind = "bare view" if bare else "view"
    return {
        "list the files at the ref": lambda: repo.objects("main", path).to_arrow(),
        f"{kind}: write its log": write,
        f"{kind}: plan the first read of it": lambda: _plan(repo.read("main", path)),
        f"{kind}: plan another read of it": lambda: _plan(repo.read("main", path)),
        f"{kind}: read one partition": lambda: _read(repo.read("main", path)),
    }


def _by_paths(repo: sparklake.Repository, path: str) -> dict[str, Step]:
    def read() -> DataFrame:
        return _read_files(repo._context, [open_table(repo._context, "main", path)], "parquet", {})

    return {
        "paths: plan a read": lambda: _plan(read()),
        "paths: plan and read one partition": lambda: _read(read()),
    }


def _plan(frame: DataFrame) -> None:
    with redirect_stdout(StringIO()):
        frame.where("p = 7").explain()


def _read(frame: DataFrame) -> None:
    frame.where("p = 7").collect()


def _timed(step: Step) -> tuple[float, float]:
    """Return the wall time of a step, and the CPU time of this process and the JVM."""
    start, spent = time.perf_counter(), _cpu_seconds()
    step()
    return time.perf_counter() - start, _cpu_seconds() - spent


def _cpu_seconds() -> float:
    here = psutil.Process()
    times = [each.cpu_times() for each in (here, *here.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


if __name__ == "__main__":
    main()
