"""Compares sparklake with lakeFS's engine: python -m benchmarks.compare -n 100000 --peer PROGRAM.

Both sides run in turn, several times over, on the same data; a row compares the best wall times.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparklake
from benchmarks import data, ours, peer
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.records import decode_record
from sparklake.graveler.splitting import DEFAULT_RANGE_RECORDS
from sparklake.graveler.tables import read_meta_range, read_ranges
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_store

LIGHT = tuple(case for case in ours.CASES if case[1] != "20%")


@dataclass(frozen=True, slots=True)
class Row:
    """Is one line of the comparison; times in seconds, `ratio_wall` > 1 where we are faster."""

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
    ours_ranges_written: int
    peer_ranges_written: int


def main() -> None:
    """Runs the comparison and prints its table."""
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.folder) as temporary:
        rows, peaks = _compare(args, Path(temporary))
    report = _table(args, rows, peaks)
    print(report)
    if args.table:
        args.table.write_text(report)
    if args.json:
        args.json.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=100_000, help="entries")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--peer", type=Path, default=Path("../shared/peer/peerbench"))
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder")
    parser.add_argument("--range-records", type=int, default=DEFAULT_RANGE_RECORDS)
    parser.add_argument("--light", action="store_true", help="without 20%% changes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    return parser.parse_args()


def _compare(args: argparse.Namespace, folder: Path) -> tuple[list[Row], tuple[float, float]]:
    base = pa.Table.from_batches(data.entries(args.n))
    cases = LIGHT if args.light else ours.CASES
    mine: list[list[ours.Measured]] = []
    theirs: list[list[peer.PeerMeasured]] = []
    peer_peak = 0.0
    with sparklake.connect(home=folder / "home", engine="local") as lake:
        for repetition in range(args.reps):
            measured, peer_peak = peer.run(args.peer, folder / "peer", args.n)
            theirs.append(measured)
            namespace, rows = ours.run(lake, folder, base, cases, args.range_records)
            mine.append(rows)
            if repetition == 0:
                _check_contents(Path(namespace), rows, peer.tables(folder / "peer"), measured)
            shutil.rmtree(namespace)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return list(_rows(args.n, mine, theirs)), (peak, peer_peak)


def _rows(
    count: int, mine: list[list[ours.Measured]], theirs: list[list[peer.PeerMeasured]]
) -> Iterator[Row]:
    best_of_peer = _best(theirs)
    for case, one in _best(mine).items():
        other = best_of_peer.get(case)
        if other is None:
            continue
        yield Row(
            one.op, one.mode, one.d, count,
            round(one.wall, 4), round(one.cpu, 4), round(other.wall, 4), round(other.cpu, 4),
            round(other.wall / one.wall, 2), round(other.cpu / one.cpu, 2),
            one.ranges_written, other.ranges_written,
        )  # fmt: skip


def _best(repetitions: Sequence[Sequence[Any]]) -> dict[tuple[str, str, int], Any]:
    best: dict[tuple[str, str, int], Any] = {}
    for each in (each for repetition in repetitions for each in repetition):
        case = (each.op, each.mode, each.d)
        if case not in best or each.wall < best[case].wall:
            best[case] = each
    return best


def _check_contents(
    namespace: Path,
    mine: Sequence[ours.Measured],
    peer_namespace: Path,
    theirs: Sequence[peer.PeerMeasured],
) -> None:
    """Compares keys and identities of the trees that both sides wrote."""
    others = {(each.op, each.mode, each.d): each for each in theirs}
    for each in mine:
        other = others.get((each.op, each.mode, each.d))
        if other is None or not each.meta_range_id:
            continue
        pairs = zip_longest(
            _identities(namespace, each.meta_range_id),
            _identities(peer_namespace, other.meta_range_id),
        )
        if any(one != two for one, two in pairs):
            raise SystemExit(f"the contents differ after {each}")


def _identities(namespace: Path, meta_range_id: str) -> Iterator[tuple[bytes, bytes]]:
    store = open_store(str(namespace))
    with scratch_folder() as scratch:
        tree = read_meta_range(store, MetaRangeId(meta_range_id), scratch)
        for block in read_ranges(store, tree.ranges, scratch):
            for record in block:
                yield record[0], decode_record(*record).identity


def _table(args: argparse.Namespace, rows: Sequence[Row], peaks: tuple[float, float]) -> str:
    lines = [
        f"# {args.n:,} entries, best of {args.reps} interleaved repetitions",
        "",
        f"Python {platform.python_version()}, {platform.machine()}, peak memory: sparklake "
        f"{peaks[0]:,.0f} MB, peer {peaks[1]:,.0f} MB. Ratio > 1: sparklake is faster.",
        "",
        "| op | mode | changes | ours, s | ours CPU, s | peer, s | peer CPU, s | ratio wall "
        "| ratio CPU | ranges written, ours | peer |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *map(_line, rows), ""])


def _line(row: Row) -> str:
    cells = (
        row.op,
        row.mode,
        f"{row.d:,}",
        *(f"{each:.3f}" for each in (row.ours_wall, row.ours_cpu, row.peer_wall, row.peer_cpu)),
        f"**{row.ratio_wall:.2f}**",
        f"{row.ratio_cpu:.2f}",
        f"{row.ours_ranges_written:,}",
        f"{row.peer_ranges_written:,}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
