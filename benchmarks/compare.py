"""Comparison of sparklake with lakeFS's engine: python -m benchmarks.compare -n 100000.

Both sides run in turn, several times, on the same data. A row compares the best wall times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks import contents, data, ours, peer, report
from benchmarks.measuring import open_lake
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS
from sparklake.graveler.ids import MetaRangeId

if TYPE_CHECKING:
    import pyarrow as pa

MERGES = (("random", "100"), ("random", "1%"), ("cluster", "100"), ("cluster", "1%"))
COMMITS = (*MERGES, ("random", "20%"))
FEWEST_ENTRIES = 1000

Case = tuple[str, str, int]
"""Op, mode and number of changes."""

Some = TypeVar("Some", ours.Measured, peer.PeerMeasured)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison. Times in seconds; `ratio_wall` > 1 where sparklake is faster."""

    op: str
    mode: str
    d: int
    n: int
    ours_wall: float
    ours_cpu: float
    peer_wall: float
    peer_cpu: float
    ratio_wall: float
    ratio_cpu: float
    ours_postgres_cpu: float
    ours_ranges_read: int
    ours_ranges_written: int
    peer_ranges_written: int
    ours_driver_mb: int
    ours_worker_mb: int
    peer_mb: int
    seed: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and write its table."""
    args = _arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.folder) as temporary:
        rows = _compare(args, Path(temporary))
    notes = [
        f"Best of {args.reps} interleaved repetitions, engine {args.engine}, "
        f"{args.range_records:,} records a range. Ratio > 1: sparklake is faster.",
        "Both sides held what their change sets make of the base.",
    ]
    if args.seed != peer.SUITE_SEED:
        notes.append(f"Our change sets are of seed {args.seed}, the peer's of its only one.")
    title = f"{args.count:,} entries beside lakeFS's engine"
    report.write(args, title, notes, list(map(asdict, rows)), list(map(_line, rows)))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = report.new_parser(__doc__)
    parser.add_argument("-n", type=int, default=100_000, dest="count", help="entries")
    parser.add_argument("--peer", type=Path, default=peer.PROGRAM, help="lakeFS's program")
    parser.add_argument("--range-records", type=int, default=DEFAULT_RANGE_RECORDS)
    args = parser.parse_args(arguments)
    if args.count < FEWEST_ENTRIES:
        parser.error(f"-n: at least {FEWEST_ENTRIES} entries, of which one percent is something")
    if not os.access(args.peer, os.X_OK):
        parser.error(f"--peer: {args.peer} is no program; say where lakeFS's engine is")
    return args


def _compare(args: argparse.Namespace, folder: Path) -> list[Row]:
    base = data.write_base(folder / "base.arrow", args.count)
    mine: list[ours.Measured] = []
    theirs: list[peer.PeerMeasured] = []
    with open_lake(folder / "home", args.engine) as (lake, meter):
        ours.warm(lake, meter, folder, args.count)
        for repetition in range(args.reps):
            peers = peer.run(args.peer, folder / "peer", args.count)
            place = (folder, args.count, args.range_records)
            with ours.new_subject(lake, meter, *place) as subject:
                measured = list(_repetition(subject, base, args.seed))
                if repetition == 0:
                    _check(base, args.seed, subject.namespace, measured)
                    asked = {_case(each) for each in measured}
                    compared = [each for each in peers if _case(each) in asked]
                    _check(base, peer.SUITE_SEED, peer.namespace(folder / "peer"), compared)
            mine += measured
            theirs += peers
    others = _best(theirs)
    return [_row(args, each, others[case]) for case, each in _best(mine).items()]


def _repetition(subject: ours.Subject, base: pa.Table, seed: int) -> Iterator[ours.Measured]:
    """Yield every operation, measured once."""
    yield subject.build(base)
    yield subject.list_all()
    yield subject.lookup(min(peer.LOOKUPS, subject.count), seed)
    yield subject.stat(min(peer.STATS, subject.count), seed)
    for mode, d in sizes(COMMITS, subject.count):
        yield subject.commit(mode, d, seed)
        yield subject.diff(mode, d, seed)
    for mode, d in sizes(MERGES, subject.count):
        yield subject.merge(mode, d, seed)


def sizes(cases: Iterable[tuple[str, str]], count: int) -> list[tuple[str, int]]:
    """Return modes and numbers of changes. For few entries, 1% may equal another case."""
    return list(dict.fromkeys((mode, ours.size_of(name, count)) for mode, name in cases))


def _check(base: pa.Table, seed: int, namespace: str, measured: Iterable[Some]) -> None:
    """Raise SystemExit unless every tree is the base with its change sets applied."""
    for each in measured:
        if not each.tree:
            continue
        expected = contents.digest_of_data(base, *_change_sets(_case(each), base.num_rows, seed))
        if contents.digest_of_tree(namespace, MetaRangeId(each.tree)) != expected:
            raise SystemExit(f"{namespace} does not hold what it should after {each}")


def _change_sets(case: Case, count: int, seed: int) -> tuple[data.Changes, ...]:
    op, mode, d = case
    if op == "commit":
        return (data.changes(count, d, mode, seed),)
    return data.merge_sides(count, d, mode, seed) if op == "merge" else ()


def _case(measured: ours.Measured | peer.PeerMeasured) -> Case:
    return measured.op, measured.mode, measured.d


def _best(measured: Iterable[Some]) -> dict[Case, Some]:
    """Return the fastest run of each case, in the order of the cases."""
    best: dict[Case, Some] = {}
    for each in measured:
        kept = best.setdefault(_case(each), each)
        if each.wall < kept.wall:
            best[_case(each)] = each
    return best


def _row(args: argparse.Namespace, one: ours.Measured, other: peer.PeerMeasured) -> Row:
    usage = one.usage
    return Row(
        op=one.op,
        mode=one.mode,
        d=one.d,
        n=args.count,
        ours_wall=round(usage.wall, 4),
        ours_cpu=round(usage.cpu, 4),
        peer_wall=round(other.wall, 4),
        peer_cpu=round(other.cpu, 4),
        ratio_wall=round(other.wall / usage.wall, 3),
        ratio_cpu=round(other.cpu / usage.cpu, 3),
        ours_postgres_cpu=round(usage.postgres_cpu, 2),
        ours_ranges_read=one.ranges_read,
        ours_ranges_written=one.ranges_written,
        peer_ranges_written=other.ranges_written,
        ours_driver_mb=round(usage.driver_mb),
        ours_worker_mb=round(usage.worker_mb),
        peer_mb=other.mb,
        seed=args.seed,
    )


def _line(row: Row) -> dict[str, Any]:
    return {
        "op": row.op,
        "mode": row.mode,
        "changes": row.d,
        "ours, s": row.ours_wall,
        "CPU, s": row.ours_cpu,
        "peer, s": row.peer_wall,
        "CPU, s ": row.peer_cpu,
        "**ratio**": f"**{row.ratio_wall:.2f}**",
        "ratio CPU": f"{row.ratio_cpu:.2f}",
        "ranges read, ours": row.ours_ranges_read,
        "written, ours": row.ours_ranges_written,
        "written, peer": row.peer_ranges_written,
        "driver, MB": row.ours_driver_mb,
        "largest worker, MB": row.ours_worker_mb,
        "peer, MB": row.peer_mb,
    }


if __name__ == "__main__":
    main()
