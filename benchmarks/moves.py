"""The cost of moving and copying folders: python -m benchmarks.moves -n 1000000.

A folder of all objects is moved or copied, and committed, without touching an object.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import data, ours, report
from benchmarks.measuring import Meter, in_own_process, open_lake

_OLD, _NEW, _OTHER = "data/", "moved/to/", "other/"


def main() -> None:
    """Measure moves and copies of all objects and write the table."""
    parser = report.new_parser(__doc__, "moves")
    parser.add_argument("-n", type=int, default=1_000_000, dest="count", help="entries")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moves-", dir=args.folder) as folder:
        rows = in_own_process(_measure, Path(folder), args)
    notes = [
        f"{args.count:,} objects in one folder, best of {args.reps} repetitions, engine "
        f"{args.engine}. A move or copy ends with one staged run; a commit applies that. The full "
        "folder has as many objects of other names, with which the new ones are compared; by force "
        "nothing is compared."
    ]
    report.write(args, "Moves and copies of a folder", notes, rows)


def _measure(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    with open_lake(folder / "home", args.engine) as (lake, meter):
        ours.warm(lake, meter, folder, args.count)
        base = data.write_base(folder / "base.arrow", args.count)
        with ours.new_subject(lake, meter, folder, args.count) as subject:
            subject.build(base)
            beside = subject.repo.create_branch("beside", "main")
            beside.move(_OLD, f"{_OTHER}own/", force=True)
            beside.copy(_OLD, _OLD, "main")
            beside.commit("as many under other names")
            found = [_round(subject, meter, rep) for rep in range(args.reps)]
    return [min(each, key=lambda row: float(row["wall, s"])) for each in zip(*found, strict=True)]


def _round(subject: ours.Subject, meter: Meter, rep: int) -> list[dict[str, Any]]:
    repo = subject.repo
    moved, copied, beside = (
        repo.create_branch(f"{name}-{rep}", source)
        for name, source in (("moved", "main"), ("copied", "main"), ("into", "beside"))
    )
    operations: list[tuple[str, Callable[[], object]]] = [
        ("mv", lambda: moved.move(_OLD, _NEW)),
        ("cp", lambda: copied.copy(_OLD, _NEW)),
        ("cp from another ref", lambda: copied.copy(_OLD, f"again/{_OLD}", "main")),
        ("mv into a full folder", lambda: beside.move(_OLD, _OTHER)),
        ("mv by force", lambda: beside.move(_OTHER, _OLD, force=True)),
        ("commit of a move", lambda: moved.commit("moved")),
        ("commit of copies", lambda: copied.commit("copied")),
    ]
    return [_row(name, meter, operation, subject.count) for name, operation in operations]


def _row(name: str, meter: Meter, operation: Callable[[], object], count: int) -> dict[str, Any]:
    result, usage = meter.measure(operation)
    if isinstance(result, int):
        assert result >= count, (result, count)
    return {
        "op": name,
        "objects": result if isinstance(result, int) else count,
        "wall, s": round(usage.wall, 3),
        "CPU, s": round(usage.cpu, 3),
        "driver, MB": round(usage.driver_mb),
        "worker, MB": round(usage.worker_mb),
    }


if __name__ == "__main__":
    main()
