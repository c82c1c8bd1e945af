"""The cost by number of records per range: python -m benchmarks.sweep -n 1000000.

Small ranges make scattered changes cheap. Large ones need fewer objects and requests.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import data, ours, report
from benchmarks.counting import counted_calls
from benchmarks.measuring import in_own_process, open_lake
from sparklake.config import Engine
from sparklake.graveler.sstable.range_files import tree_file_key

RANGE_RECORDS = tuple(1024 << power for power in range(7))
SIZES = ("100", "1%")


@dataclass(frozen=True, slots=True)
class Point:
    """An operation at one range size. Gets, puts and finds would be requests to S3."""

    range_records: int
    op: str
    changes: str
    d: int
    n: int
    wall: float
    cpu: float
    gets: int
    puts: int
    finds: int
    ranges_read: int
    ranges_written: int
    objects: int
    metarange_bytes: int


def main() -> None:
    """Measure every size of ranges and write the table."""
    parser = report.new_parser(__doc__, "range-records")
    parser.add_argument("-n", type=int, default=1_000_000, dest="count", help="entries")
    parser.add_argument("--range-records", type=int, nargs="+", default=RANGE_RECORDS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=args.folder) as folder:
        points = [
            point
            for range_records in args.range_records
            for point in in_own_process(_measure, Path(folder), args, range_records)
        ]
    notes = [
        f"{args.count:,} entries; random changes, best of {args.reps} repetitions, engine "
        f"{args.engine}. Gets, puts and finds are the calls of the object store, which on S3 are a "
        "request each; they are counted in a repetition of its own, in one process."
    ]
    rows = [asdict(each) for each in points]
    report.write(args, "Records in a range", notes, rows, list(map(_line, points)))


def _measure(folder: Path, args: argparse.Namespace, range_records: int) -> list[Point]:
    with open_lake(folder / "home", args.engine) as (lake, meter):
        ours.warm(lake, meter, folder, args.count)
        base = data.write_base(folder / "base.arrow", args.count)
        with ours.new_subject(lake, meter, folder, args.count, range_records) as subject:
            subject.build(base)
            measured = subject.random_changes(SIZES, args.seed, args.reps)
            calls = _calls(folder / "home", subject, args.seed + 2 * args.reps)
            return [
                _point(subject, changes, some, calls[op, changes])
                for (op, changes), some in measured.items()
            ]


def _calls(home: Path, subject: ours.Subject, seed: int) -> dict[tuple[str, str], Counter[str]]:
    """Return the calls of the store by each operation, which runs again in this process alone."""
    with counted_calls() as counts, open_lake(home, Engine.LOCAL) as (lake, meter):
        meter.counter = counts.copy
        alone = ours.Subject(lake, meter, lake.repository(subject.repo.name), subject.count)
        measured = alone.random_changes(SIZES, seed)
        return {case: one.usage.calls for case, (one,) in measured.items()}


def _point(
    subject: ours.Subject, changes: str, measured: Sequence[ours.Measured], calls: Counter[str]
) -> Point:
    best = ours.quickest(measured)
    tree = subject.repo.tree("main")
    file = Path(subject.namespace.removeprefix("file://"), tree_file_key(tree.id))
    return Point(
        range_records=subject.repo.info.range_records,
        op=best.op,
        changes=changes,
        d=best.d,
        n=subject.count,
        wall=round(best.wall, 4),
        cpu=round(best.usage.cpu, 4),
        gets=calls["gets"],
        puts=calls["puts"],
        finds=calls["finds"],
        ranges_read=best.ranges_read,
        ranges_written=best.ranges_written,
        objects=len(tree.ranges) + 1,
        metarange_bytes=file.stat().st_size,
    )


def _line(point: Point) -> dict[str, Any]:
    return {
        "records a range": point.range_records,
        "op": point.op,
        "changes": point.changes,
        "wall, s": point.wall,
        "CPU, s": point.cpu,
        "gets": point.gets,
        "puts": point.puts,
        "finds": point.finds,
        "ranges read": point.ranges_read,
        "written": point.ranges_written,
        "objects of the tree": point.objects,
        "metarange, kB": round(point.metarange_bytes / 1000),
    }


if __name__ == "__main__":
    main()
