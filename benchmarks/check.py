"""The rate of a check: python -m benchmarks.check -n 2000000.

The repository has one commit of so many objects. Each object is a hard link to one of a few small
files, so that a listing meets as many names. Each engine checks all levels below content.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.measuring import Meter, Usage, in_own_process, open_lake
from benchmarks.spark import spark_environment
from benchmarks.spark_scale import open_session
from sparklake import Lake, Repository
from sparklake.config import Engine
from sparklake.rows.objects import STAGE_SCHEMA

CORES = 2
TARGET = 500_000
LEVELS = ("trees", "objects")

_BODY = b"0123456789"
_FOLDER_FILES = 1000
_LINKS = 50_000
_BATCH_ROWS = 1 << 16
_NAME = "checked"


def main() -> None:
    """Measure checks and write the table."""
    parser = report.new_parser(__doc__, "check")
    parser.add_argument("-n", type=int, default=2_000_000, dest="count", help="objects")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="check-", dir=args.folder) as folder:
        rows = list(_measure(args, Path(folder)))
    notes = [
        f"A check of {args.count:,} objects in one commit on a local disk, best of {args.reps} "
        "repetitions after one to warm up. `tables` computes all ids again, and `objects` also "
        "lists and compares all files. The rate asked for, on Spark with two cores, is "
        f"{TARGET:,} records per second. CPU and memory are of the driver, the JVM and its Python "
        "workers."
    ]
    report.write(args, "The rate of a check", notes, rows)


def _measure(args: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    with open_lake(folder / "home", Engine.AUTO) as (lake, _):
        _build(lake, folder, args.count)
        for engine in (Engine.SPARK, Engine.LOCAL):
            usages = in_own_process(_checks, args, folder, engine)
            for level, usage in zip(LEVELS, usages, strict=True):
                yield _row(engine, level, args.count, usage)


def _build(lake: Lake, folder: Path, count: int) -> None:
    """Write the objects and commit their entries."""
    repo = lake.create_repository(_NAME, str(folder / "namespace"))
    main = repo.branch("main")
    main.stage(pa.Table.from_batches(_rows(count), _SCHEMA))
    root = folder / "namespace"
    for number in range(count):
        place = root / _key(number)
        if number % _FOLDER_FILES == 0:
            place.parent.mkdir(parents=True, exist_ok=True)
        if number % _LINKS == 0:
            source = place
            source.write_bytes(_BODY)
        else:
            os.link(source, place)
    main.commit("objects")


_SCHEMA = pa.schema(
    [each for each in STAGE_SCHEMA if each.name in ("path", "size", "checksum", "address")]
)


def _rows(count: int) -> Iterator[pa.RecordBatch]:
    digest = md5(_BODY, usedforsecurity=False).hexdigest()
    for start, stop in pairwise([*range(0, count, _BATCH_ROWS), count]):
        numbers = np.arange(start, stop)
        columns = {
            "path": pa.array([f"tables/part-{each:09d}.parquet" for each in numbers.tolist()]),
            "size": pa.array(np.full(len(numbers), len(_BODY), np.int64)),
            "checksum": pa.array([digest] * len(numbers)),
            "address": pa.array([_key(each) for each in numbers.tolist()]),
        }
        yield pa.record_batch([columns[each] for each in _SCHEMA.names], schema=_SCHEMA)


def _key(number: int) -> str:
    return f"data/{number // _FOLDER_FILES:05d}/{number:09d}.parquet"


def _checks(args: Namespace, folder: Path, engine: Engine) -> list[Usage]:
    """Check several times on an engine; return the fastest check of each level."""
    os.environ.update(spark_environment())
    with open_lake(folder / "home", engine) as (lake, meter):
        session = open_session(folder, CORES) if engine is Engine.SPARK else None
        repo = lake.repository(_NAME)
        best = [_best(meter, repo, level, args) for level in LEVELS]
        if session is not None:
            session.stop()
    return best


def _best(meter: Meter, repo: Repository, level: str, args: Namespace) -> Usage:
    usages = []
    for _ in range(args.reps + 1):
        found, usage = meter.measure(lambda: repo.check(level))
        if not found.is_healthy or found.counts.records != args.count:
            raise AssertionError(f"the check found {found.kinds} in {found.counts}")
        usages.append(usage)
    return min(usages[1:], key=lambda each: each.wall)


def _row(engine: Engine, level: str, count: int, usage: Usage) -> dict[str, Any]:
    return {
        "engine": f"local[{CORES}]" if engine is Engine.SPARK else "threads",
        "level": level,
        "objects": count,
        "wall, s": round(usage.wall, 2),
        "records/s": round(count / usage.wall),
        "CPU, s": round(usage.cpu, 2),
        "driver, MB": round(usage.driver_mb),
        "largest process below, MB": round(usage.worker_mb),
    }


if __name__ == "__main__":
    main()
