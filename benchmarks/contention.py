"""Writers that race for one branch: python -m benchmarks.contention --writers 8.

Each writer is a process. It commits changes on its own branches. Then all writers start at the same
moment, and each merges its branches into `main` one after the other, without a pause.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import IO

import numpy as np
import pyarrow as pa

import sparklake
from benchmarks import data
from benchmarks.counting import noted_moves
from sparklake.errors import RaceLostError

ROOT = Path(__file__).parents[1]
REPOSITORY = "contention"
CHANGES = 5

COLUMNS = (
    "writers",
    "merges",
    "merges/s",
    "gave up",
    "attempts, mean",
    "p95",
    "max",
    "seconds a merge, median",
    "p95",
    "max",
    "share of the unluckiest",
)
"""The share: merges of the last writer when the first one was through, of those it had to do."""


@dataclass(frozen=True, slots=True)
class Order:
    """The work of one writer."""

    home: str
    writer: int
    writers: int
    entries: int
    turns: int


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge: its result, start and end, in seconds."""

    attempts: int
    start: float
    end: float
    landed: bool


def main() -> None:
    """Run some numbers of writers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--turns", type=int, default=25, help="merges of each writer")
    parser.add_argument("-n", type=int, default=20_000, help="entries of the base")
    parser.add_argument("--order", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.order:
        _work(Order(**json.loads(args.order)))
        return
    print(_line(COLUMNS), _line(["---:"] * len(COLUMNS)), sep="\n")
    for writers in args.writers:
        print(_row(_race(writers, args.n, args.turns)), flush=True)


# --- the race -------------------------------------------------------------------------------------


def _race(writers: int, entries: int, turns: int) -> list[list[Merge]]:
    """Return the merges of each writer."""
    with tempfile.TemporaryDirectory(prefix="contention-") as folder, ExitStack() as stack:
        lake = stack.enter_context(sparklake.connect(home=folder, engine="local"))
        repo = lake.create_repository(REPOSITORY, f"{folder}/namespace")
        repo.branch("main").stage(pa.Table.from_batches(data.entries(entries)))
        repo.branch("main").commit("base")
        started = [
            stack.enter_context(_started(Order(folder, number, writers, entries, turns)))
            for number in range(writers)
        ]
        for each in started:
            _pipe(each.stdout).readline()
        for each in started:
            _pipe(each.stdin).write("go\n")
            _pipe(each.stdin).flush()
        answers = [json.loads(each.communicate()[0]) for each in started]
        found = [[Merge(**row) for row in answer] for answer in answers]
        _check(repo, found)
    return found


def _started(order: Order) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.contention", "--order", json.dumps(asdict(order))]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _check(repo: sparklake.Repository, found: Sequence[Sequence[Merge]]) -> None:
    """Raise SystemExit unless the log has all finished merges, and main their new objects."""
    landed = sum(each.landed for merges in found for each in merges)
    merged = sum(len(each.parents) == 2 for each in repo.log("main"))
    paths = {each.path for each in repo.objects("main") if each.path.endswith(".new")}
    if merged != landed or len(paths) != landed:
        raise SystemExit(f"{landed} merges landed, {merged} are in the log, {len(paths)} in main")


# --- a writer -------------------------------------------------------------------------------------


def _work(order: Order) -> None:
    with sparklake.connect(home=order.home, engine="local") as lake, noted_moves() as moves:
        repo = lake.repository(REPOSITORY)
        names = [_committed(repo, order, turn) for turn in range(order.turns)]
        print("ready", flush=True)
        sys.stdin.readline()
        merges = []
        for name in names:
            before, start = len(moves), time.time()
            landed = _lands(repo, name)
            merges.append(Merge(len(moves) - before, start, time.time(), landed))
    print(json.dumps([asdict(each) for each in merges]))


def _committed(repo: sparklake.Repository, order: Order, turn: int) -> str:
    """Return a branch with a new object, and changes of objects that no other branch changes."""
    name = f"writer-{order.writer}-{turn}"
    branch = repo.create_branch(name, "main")
    lane, lanes = order.writer * order.turns + turn, order.writers * order.turns
    indices = random.Random(lane).sample(range(order.entries // lanes), CHANGES)
    index = np.array([*(at * lanes + lane for at in indices), lane])
    kind = np.full(len(index), data.Kind.PUT)
    kind[-1] = data.Kind.ADD
    branch.stage(data.Changes(index, kind, version=1).rows())
    branch.commit(name)
    return name


def _lands(repo: sparklake.Repository, source: str) -> bool:
    try:
        repo.merge(source, "main")
    except RaceLostError:
        return False
    return True


# --- the table ------------------------------------------------------------------------------------


def _row(found: Sequence[Sequence[Merge]]) -> str:
    merges = [each for own in found for each in own]
    landed = sum(each.landed for each in merges)
    attempts = [each.attempts for each in merges]
    walls = [each.end - each.start for each in merges]
    span = max(each.end for each in merges) - min(each.start for each in merges)
    first = min(own[-1].end for own in found)
    shares = [sum(each.end <= first for each in own) / len(own) for own in found]
    return _line(
        [
            f"{len(found)}",
            f"{landed}",
            f"{landed / span:.1f}",
            f"{len(merges) - landed}",
            f"{mean(attempts):.2f}",
            f"{_percentile(attempts, 0.95)}",
            f"{max(attempts)}",
            *(f"{_percentile(walls, part):.3f}" for part in (0.5, 0.95, 1.0)),
            f"{min(shares):.0%}",
        ]
    )


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


if __name__ == "__main__":
    main()
