"""The growth of cost: python -m benchmarks.scale --ns 100000 1000000.

N grows. The number of changes is fixed, or a fixed part of N. The slope is that of log(wall time)
over log(N), by least squares: 0 is a constant cost, 1 a linear one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data, ours, report
from benchmarks.measuring import in_own_process, open_lake

NS = (100_000, 1_000_000, 5_000_000, 10_000_000)
SIZES = ("100", "1%")


@dataclass(frozen=True, slots=True)
class Point:
    """An operation at one N: its fastest repetition, and the highest memory peak."""

    op: str
    changes: str
    d: int
    n: int
    wall: float
    cpu: float
    ranges_read: int
    ranges_written: int
    driver_mb: int
    worker_mb: int


def main() -> None:
    """Measure every N in a process of its own and write the table."""
    parser = report.new_parser(__doc__, "scale")
    parser.add_argument("--ns", type=int, nargs="+", default=NS, help="entries, each in turn")
    args = parser.parse_args()
    points = [point for count in args.ns for point in in_own_process(_measure, args, count)]
    notes = [
        f"Random changes, best of {args.reps} repetitions with seeds from {args.seed} on, engine "
        f"{args.engine}. The slope is of log(wall) over log(N): 0 does not grow, 1 is linear.",
        "Memory is the peak of what the driver, and its largest worker, have for themselves.",
    ]
    rows = list(_rows(points))
    report.write(args, "How cost grows", notes, rows, list(map(_line, rows)))


def _measure(args: argparse.Namespace, count: int) -> list[Point]:
    with (
        tempfile.TemporaryDirectory(prefix="scale-", dir=args.folder) as temporary,
        open_lake(Path(temporary, "home"), args.engine) as (lake, meter),
    ):
        ours.warm(lake, meter, Path(temporary), count)
        with ours.new_subject(lake, meter, temporary, count) as subject:
            base = data.write_base(Path(temporary, "base.arrow"), count)
            measured = {("build", "all"): [subject.build(base)]}
            measured |= subject.random_changes(SIZES, args.seed, args.reps)
    return [_point(changes, count, some) for (_, changes), some in measured.items()]


def _point(changes: str, count: int, measured: Sequence[ours.Measured]) -> Point:
    best = ours.quickest(measured)
    return Point(
        op=best.op,
        changes=changes,
        d=best.d,
        n=count,
        wall=round(best.wall, 4),
        cpu=round(best.usage.cpu, 4),
        ranges_read=best.ranges_read,
        ranges_written=best.ranges_written,
        driver_mb=round(max(each.usage.driver_mb for each in measured)),
        worker_mb=round(max(each.usage.worker_mb for each in measured)),
    )


def _rows(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """Yield the points by kind, each with the slope of its kind."""
    kinds = dict.fromkeys((each.op, each.changes) for each in points)
    for kind in kinds:
        same = [each for each in points if (each.op, each.changes) == kind]
        for each in same:
            yield {**asdict(each), "slope": slope([(each.n, each.wall) for each in same])}


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of log(y) over log(x) by least squares; None for a single point."""
    if len(points) < 2:
        return None
    x, y = np.log(np.array(points)).T
    return round(float(np.polyfit(x, y, 1)[0]), 2)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "op": row["op"],
        "changes": row["changes"],
        "N": row["n"],
        "wall, s": row["wall"],
        "CPU, s": row["cpu"],
        "slope": "" if row["slope"] is None else f"{row['slope']:.2f}",
        "ranges read": row["ranges_read"],
        "ranges written": row["ranges_written"],
        "driver, MB": row["driver_mb"],
        "largest worker, MB": row["worker_mb"],
    }


if __name__ == "__main__":
    main()
