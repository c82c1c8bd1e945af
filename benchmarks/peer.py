"""Runs the peer's side: the program of lakeFS's committed layer, and reads what it prints."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class PeerMeasured:
    """Is one operation of the peer; times in seconds."""

    op: str
    mode: str
    d: int
    wall: float
    cpu: float
    meta_range_id: str
    ranges_written: int


def run(program: Path, folder: Path, count: int) -> tuple[list[PeerMeasured], float]:
    """Runs the peer once over everything; returns its rows and its peak memory in MB."""
    options = {"-n": count, "-reps": 1, "-dir": folder, "-gets": 1}
    command = [str(program), "suite", *(str(part) for pair in options.items() for part in pair)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    made = next(row for row in rows if row["op"] == "gen_entries")
    peak = max(row.get("rss_peak_mb", 0) for row in rows)
    return [_measured(row, made) for row in rows if _is_compared(row)], peak


def tables(folder: Path) -> Path:
    """Returns the storage namespace that a run leaves."""
    return folder / "block" / "bench"


def _is_compared(row: dict[str, Any]) -> bool:
    if row["op"] == "merge":
        return row["strategy"] == "none" and "metarange_id" in row
    return row["op"] in ("build", "list_all", "commit", "diff")


def _measured(row: dict[str, Any], made: dict[str, Any]) -> PeerMeasured:
    wall, cpu, op = row["best"], row["cpu_best"], row["op"]
    if op == "build":
        # Its build begins with values that are made; ours begins with the columns of objects.
        wall, cpu = wall + made["seconds"], cpu + made["seconds"]
    return PeerMeasured(
        op="list" if op == "list_all" else op,
        mode=row.get("mode", "all"),
        d=row.get("d", row["n"]),
        wall=wall,
        cpu=cpu,
        meta_range_id=row.get("metarange_id", ""),
        ranges_written=row.get("ranges_written", row.get("ranges", 0)),
    )
