"""The plan sizes from which several threads, or Spark, are faster.

Run it as python -m benchmarks.thresholds --table benchmarks/results/thresholds.md [--spark].

Each engine in turn commits changes to 1% of the objects, spread so that every range is read and
written, and lists all objects. Times are the best of some repetitions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.report import output_file
from sparklake import Lake, Repository
from sparklake.engine.base import Runner
from sparklake.engine.choice import Runners
from sparklake.engine.threads import LocalRunner, ThreadRunner
from sparklake.testing.memory import MemoryRefStore

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)


@dataclass(slots=True)
class Fixed(Runners):
    """A choice of one engine for every plan, of any size."""

    runner: Runner = field(default_factory=LocalRunner)

    def choose(self, records: int, title: str = "") -> Runner:
        return self.runner


@dataclass(frozen=True, slots=True)
class Way:
    """An engine to measure."""

    name: str
    runner: Runner


def main() -> None:
    args = _arguments()
    lines = []
    with _ways(args) as ways, tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        for size in args.sizes:
            best = _measure(size, ways, args.reps, Path(temporary))
            lines.append(f"| {size:,} | {' | '.join(f'{each:.3f}' for each in best)} |")
            print(lines[-1], flush=True)
        heads = [f"{op}, {way.name}" for way in ways for op in ("commit", "list")]
    report = [
        "# In one thread, in several, on Spark",
        "",
        f"Seconds, the best of {args.reps}; {args.workers} threads; written by `{_COMMAND}`.",
        "",
        f"| records | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *lines,
    ]
    if args.table:
        args.table.write_text("\n".join(report) + "\n")


_COMMAND = "python -m benchmarks.thresholds"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--spark", action="store_true", help="measure a warm Spark session, too")
    parser.add_argument("--folder", type=Path, help="where the data goes")
    parser.add_argument("--table", type=output_file, help="the file to write the table to")
    return parser.parse_args()


@contextmanager
def _ways(args: argparse.Namespace) -> Iterator[list[Way]]:
    threads = ThreadRunner(args.workers)
    ways = [Way("one thread", LocalRunner()), Way("threads", threads)]
    if args.spark:
        from sparklake.engine.spark import SparkRunner
        from sparklake.session import spark_session

        ways.append(Way("Spark", SparkRunner(spark_session())))
    try:
        yield ways
    finally:
        threads.close()


def _measure(size: int, ways: list[Way], reps: int, folder: Path) -> list[float]:
    """Return the best seconds of commit and list for each engine."""
    runners = Fixed()
    lake = Lake(MemoryRefStore(), runners, "benchmark")
    repo = lake.create_repository("lake", str(folder / str(size)))
    main = repo.branch("main")
    main.stage(pa.Table.from_batches(data.entries(size)))
    main.commit("base")
    versions = count(1)
    best = [float("inf")] * (2 * len(ways))
    # One repetition more: the first one warms.
    for rep in range(reps + 1):
        for at, way in enumerate(ways):
            times = _times(repo, runners, way, size, next(versions))
            if rep:
                best[2 * at : 2 * at + 2] = map(min, best[2 * at : 2 * at + 2], times)
    return best


def _times(repo: Repository, runners: Fixed, way: Way, size: int, version: int) -> list[float]:
    runners.runner = LocalRunner()
    branch = repo.create_branch(f"branch-{version}", "main")
    index = np.arange(0, size, 100)
    branch.stage(data.Changes(index, np.full(len(index), data.Kind.PUT), version).rows())
    runners.runner = way.runner
    times = []
    for operation in (lambda: branch.commit("changes"), lambda: _list(repo, size)):
        start = time.perf_counter()
        operation()
        times.append(time.perf_counter() - start)
    return times


def _list(repo: Repository, size: int) -> None:
    assert sum(batch.num_rows for batch in repo.objects("main").batches()) == size


if __name__ == "__main__":
    main()
