"""The cost of metaranges of very many objects: python -m benchmarks.billion.

The objects do not exist: the metaranges describe the ranges that they would have. Source and dest
have changed different ranges, so a merge copies all ranges by id. Only the work on metaranges
remains.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.measuring import Meter, in_own_process, open_meter
from sparklake.engine.execution import finish, run_plan
from sparklake.engine.threads import LocalRunner
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.plan import SideStream, plan_diff, plan_merge
from sparklake.graveler.planning.split import CAP_FACTOR
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo, Ranges
from sparklake.graveler.sstable.range_files import make_meta_range, read_meta_range, tree_file_key
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import merge_body

OBJECTS = (10_000_000, 100_000_000, 1_000_000_000)
RANGE_RECORDS = (1024, 8192, 65536)
RECORD_BYTES = 230
_PROFILED_LINES = 12
_WARM_OBJECTS = 1_000_000

T = TypeVar("T")


def main() -> None:
    """Measure every number of objects and of records in a range, each in a fresh process."""
    parser = report.new_parser(__doc__, "billion")
    parser.add_argument("--objects", type=int, nargs="+", default=OBJECTS)
    parser.add_argument("--range-records", type=int, nargs="+", default=RANGE_RECORDS)
    parser.add_argument("--changed", type=int, default=1000, help="ranges changed on each side")
    parser.add_argument(
        "--profile", action="store_true", help="print where the time of a step goes"
    )
    args = parser.parse_args()
    rows = [
        row
        for objects in args.objects
        for range_records in args.range_records
        for row in in_own_process(_measure, args, objects, range_records)
    ]
    notes = [
        f"Metaranges alone, on a local disk; {args.changed:,} ranges changed on each side, none in "
        "common. The merge is plan, run without anything to open, stitch and write.",
        "Memory is the peak of the process; what the step before it left is in it.",
    ]
    report.write(args, "The metarange of a billion objects", notes, rows)


def _measure(args: Namespace, objects: int, range_records: int) -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="billion-", dir=args.folder) as folder,
        open_meter() as meter,
    ):
        store = open_store(folder)
        warm = _Steps(meter, store, _WARM_OBJECTS, range_records)
        list(warm.run(args.changed, args.seed))
        steps = _Steps(meter, store, objects, range_records, args.profile)
        return list(steps.run(args.changed, args.seed))


@dataclass(frozen=True, slots=True)
class _Steps:
    meter: Meter
    store: ObjectStore
    objects: int
    range_records: int
    profile: bool = False

    def run(self, changes: int, seed: int) -> Iterator[dict[str, Any]]:
        """Yield a row for each step. Each reads its metaranges again, as a new driver would."""
        row, ids, touched = self._write(changes, np.random.default_rng(seed))
        yield row
        trees, row = self._step("read three metaranges", lambda: [*map(self._read, ids)])
        yield row
        base, source, dest = (each.ranges for each in trees)
        yield self._step("plan a diff", lambda: plan_diff(base, source))[1]
        yield self._step("plan a commit", lambda: plan_apply(base, [SideStream()], touched))[1]
        plan, row = self._step("merge: plan", lambda: plan_merge(base, source, dest))
        yield row
        workspace = Workspace(self.store.uri, self.range_records)
        body = partial(merge_body, workspace, Resolution())
        outcome, row = self._step("merge: run", lambda: run_plan(LocalRunner(), body, plan))
        yield row
        merged = partial(finish, self.store, workspace, outcome.pieces)
        yield self._step("merge: stitch and write", merged)[1]

    def _write(
        self, changes: int, numbers: np.random.Generator
    ) -> tuple[dict[str, Any], list[MetaRangeId], list[Interval]]:
        """Write base, source and dest; return the row of base, and where source differs."""
        base = made_ranges(self.objects, self.range_records, numbers)
        picked = numbers.choice(len(base), 2 * min(changes, len(base) // 2), replace=False)
        tree, row = self._step("write a metarange", lambda: self._write_tree(base))
        size = sum(each.size for each in self.store.list(tree_file_key(tree.id)))
        halves = np.split(picked, 2)
        sides = [self._write_tree(changed(base, half, numbers)).id for half in halves]
        points = [base[at].max_key for at in sorted(halves[0].tolist())]
        touched = [Interval(key, successor(key)) for key in points]
        row = {**row, "ranges": len(base), "file, MB": round(size / 1e6, 1)}
        return row, [tree.id, *sides], touched

    def _write_tree(self, ranges: Ranges) -> MetaRange:
        tree, files = make_meta_range(ranges)
        self.store.put_many_if_absent(files)
        return tree

    def _read(self, tree: MetaRangeId) -> MetaRange:
        return read_meta_range(self.store, tree)

    def _step(self, name: str, operation: Callable[[], T]) -> tuple[T, dict[str, Any]]:
        profile = cProfile.Profile() if self.profile else None
        with profile or nullcontext():
            result, usage = self.meter.measure(operation)
        if profile:
            text = StringIO()
            pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(_PROFILED_LINES)
            print(f"{name}:", text.getvalue())
        return result, {
            "step": name,
            "objects": self.objects,
            "records a range": self.range_records,
            "ranges": None,
            "file, MB": None,
            "wall, s": round(usage.wall, 3),
            "CPU, s": round(usage.cpu, 3),
            "memory, MB": round(usage.driver_mb),
        }


def made_ranges(objects: int, range_records: int, numbers: np.random.Generator) -> list[RangeInfo]:
    """Return about the ranges that so many objects would have."""
    cap = CAP_FACTOR * range_records
    counts = np.minimum(numbers.geometric(1 / range_records, 2 * objects // range_records), cap)
    ends = np.cumsum(counts)
    stops = np.append(ends[ends < objects], objects).tolist()
    starts = [0, *stops[:-1]]
    return [
        RangeInfo(each, _key(start), _key(stop - 1), stop - start, (stop - start) * RECORD_BYTES)
        for each, start, stop in zip(_ids(len(stops), numbers), starts, stops, strict=True)
    ]


def changed(
    ranges: list[RangeInfo], at: npt.NDArray[np.int64], numbers: np.random.Generator
) -> list[RangeInfo]:
    """Return ranges, some of which have other records between the same keys."""
    new = dict(zip(at.tolist(), _ids(len(at), numbers), strict=True))
    return [replace(each, id=new[n]) if n in new else each for n, each in enumerate(ranges)]


def _ids(count: int, numbers: np.random.Generator) -> Iterator[RangeId]:
    for _ in range(count):
        yield RangeId(numbers.bytes(32).hex())


def _key(index: int) -> bytes:
    return b"data/part-%06d/obj-%012d.parquet" % (index // 10000, index)


if __name__ == "__main__":
    main()
