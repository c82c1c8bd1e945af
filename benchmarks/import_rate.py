"""Imported objects per second: python -m benchmarks.import_rate -n 5000000.

The rows are written before the measurement: a table mapped from disk for this process, and Parquet
files for Spark. Each engine has a process of its own. `--engines files` imports local files of 1 to
4 kB instead, which are hashed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import data, ours, report
from benchmarks.measuring import Meter, in_own_process, open_lake
from benchmarks.spark import spark_environment
from sparklake.config import Engine
from sparklake.session import LOGGING_OPTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAP = "1g"
ENGINES = ("local", "stream", "threads", "spark")
FILES = "files"

_PLACE = "s3://bucket/"
_FILES = 16
_WARM = 100_000


def main() -> None:
    """Measure imports of rows and write the table."""
    parser = report.new_parser(__doc__, "import-rate")
    parser.set_defaults(reps=1)
    parser.add_argument("-n", type=int, default=5_000_000, dest="count", help="objects")
    parser.add_argument("--engines", nargs="+", choices=(*ENGINES, FILES), default=ENGINES)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="import-", dir=args.folder) as folder:
        rows = []
        for row in _measure(args, Path(folder)):
            rows.append(row)
            print(row, flush=True)
    notes = [
        f"{args.count:,} rows, in a random order of files of rows in order, are imported and "
        f"committed, best of {args.reps} repetitions. "
        "CPU is of all processes; memory that which a process has for itself.",
        f"Spark is local[2] with a heap of {HEAP}, which is in the process below; its driver is "
        "the Python process. `local` is one thread, which is given a stream of batches; "
        "`stream` is given such a stream, and `threads` a table mapped from disk, on all cores.",
    ]
    report.write(args, "Imports of rows", notes, rows)


def _measure(args: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    write_rows(folder, "warm", min(args.count, _WARM))
    if FILES in args.engines:
        for name, count in (("warm", min(args.count, _WARM)), ("rows", args.count)):
            write_files(folder / f"{name}-files", count)
    write_rows(folder, "rows", args.count)
    for engine in args.engines:
        yield in_own_process(_imported, args, folder, engine)


def write_rows(folder: Path, name: str, count: int) -> None:
    """Write rows to import: an Arrow file, and a folder of Parquet files."""
    (folder / name).mkdir()
    writers: list[pq.ParquetWriter] = []
    arrow = str(folder / f"{name}.arrow")
    with pa.OSFile(arrow, "wb") as sink, pa.ipc.new_file(sink, data.SCHEMA) as whole:
        for number, batch in enumerate(data.entries(count)):
            at = batch.schema.get_field_index("address")
            full = pc.binary_join_element_wise(_PLACE, batch.column(at), "")
            rows = batch.set_column(at, batch.schema.field(at), full)
            whole.write_batch(rows)
            if number < _FILES:
                file = folder / name / f"{number * 7 % _FILES:02d}.parquet"
                writers.append(pq.ParquetWriter(file, rows.schema))
            writers[number % _FILES].write_batch(rows)
    for each in writers:
        each.close()


def write_files(place: Path, count: int) -> None:
    """Write files of 1 to 4 kB, a thousand to a folder."""
    chance = Random(1)
    for number in range(count):
        folder = place / f"{number // 1000:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08d}").write_bytes(chance.randbytes(chance.randrange(1000, 4000)))


def _imported(args: argparse.Namespace, folder: Path, engine: str) -> dict[str, Any]:
    """Import several times, after one import to warm up; return the best measurement."""
    chosen = {"local": Engine.LOCAL, "spark": Engine.SPARK}.get(engine, Engine.AUTO)
    with open_lake(folder / "home", chosen) as (lake, meter):
        # Only now, since what is there before the meter is does not count.
        session = _session(folder) if engine == "spark" else None
        best = None
        for rep in range(-1, args.reps):
            name, count = ("warm", min(args.count, _WARM)) if rep < 0 else ("rows", args.count)
            with ours.new_subject(lake, meter, folder, count) as subject:
                row = _row(subject, meter, _source(session, folder, name, engine), engine)
            if rep >= 0 and (best is None or row["wall, s"] < best["wall, s"]):
                best = row
    assert best is not None
    return best


def _source(session: SparkSession | None, folder: Path, name: str, engine: str) -> Any:
    if session is not None:
        return session.read.parquet(str(folder / name))
    if engine == FILES:
        return folder / f"{name}-files"
    with pa.memory_map(str(folder / f"{name}.arrow")) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    return table.to_reader() if engine in ("local", "stream") else table


def _row(subject: ours.Subject, meter: Meter, source: Any, engine: str) -> dict[str, Any]:
    main = subject.repo.branch("main")
    done, usage = meter.measure(lambda: main.import_objects(source, replace=True))
    assert done.objects == subject.count, (done.objects, subject.count)
    return {
        "engine": engine,
        "objects": subject.count,
        "objects/s": round(subject.count / usage.wall),
        "wall, s": round(usage.wall, 2),
        "CPU, s": round(usage.cpu, 2),
        "ranges": len(subject.repo.tree("main").ranges),
        "driver, MB": round(usage.driver_mb),
        "largest process below, MB": round(usage.worker_mb),
    }


def _session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    return (
        SparkSession.builder.master("local[2]")
        .appName("import-rate")
        .config("spark.driver.memory", HEAP)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
        .config("spark.driver.extraJavaOptions", LOGGING_OPTION)
        .getOrCreate()
    )


if __name__ == "__main__":
    main()
