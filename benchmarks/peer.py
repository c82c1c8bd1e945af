"""The peer's side: the program of lakeFS's committed layer, and its output."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1].parent / "shared" / "peer" / "peerbench"
"""The default path of the program, next to the project."""

SUITE_SEED = 1
"""The seed of its suite's change sets, which has no option."""


LOOKUPS = 200_000
STATS = 20_000

_GETS = 20_000
# It looks up single keys alone: a batch is what they take where they are quickest, on 8 threads.
_GET_OPERATIONS = {1: ("stat", STATS), 8: ("lookup", LOOKUPS)}
_GET_API = "committedManager.Get"


@dataclass(frozen=True, slots=True)
class PeerMeasured:
    """One operation of the peer. Times are in seconds; `mb` is the peak memory so far."""

    op: str
    mode: str
    d: int
    wall: float
    cpu: float
    mb: int
    tree: str
    ranges_written: int


def run(program: Path, folder: Path, count: int) -> list[PeerMeasured]:
    """Run the peer's suite once in a folder."""
    options = {"-n": count, "-reps": 1, "-dir": folder, "-gets": min(_GETS, count)}
    command = [str(program), "suite", *(str(part) for pair in options.items() for part in pair)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    made = next(row for row in rows if row["op"] == "gen_entries")
    return [_measured(row, made) for row in rows if _is_compared(row)]


def namespace(folder: Path) -> str:
    """Return the storage namespace of a finished run."""
    return str(folder / "block" / "bench")


def _is_compared(row: dict[str, Any]) -> bool:
    if row["op"] == "merge":
        return row["strategy"] == "none" and "metarange_id" in row
    if row["op"] == "get":
        return row["api"] == _GET_API and row["threads"] in _GET_OPERATIONS
    return row["op"] in ("build", "list_all", "commit", "diff")


def _measured(row: dict[str, Any], made: dict[str, Any]) -> PeerMeasured:
    wall, cpu, op = row["best"], row["cpu_best"], row["op"]
    if op == "build":
        # Its build begins with values that are made; ours begins with the columns of objects.
        wall, cpu = wall + made["seconds"], cpu + made["seconds"]
    mode, d = row.get("mode", "all"), row.get("d", row["n"])
    if op == "get":
        op, most = _GET_OPERATIONS[row["threads"]]
        mode, d = "random", min(most, row["n"])
        wall, cpu = wall * d / row["gets"], cpu * d / row["gets"]
    return PeerMeasured(
        op="list" if op == "list_all" else op,
        mode=mode,
        d=d,
        wall=wall,
        cpu=cpu,
        mb=row["rss_peak_mb"],
        tree=row.get("metarange_id", ""),
        ranges_written=row.get("ranges_written", row.get("ranges", 0)),
    )
