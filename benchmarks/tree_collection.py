"""The metadata of a long history: python -m benchmarks.tree_collection --commits 1000.

Each commit changes 1% of the objects at random places, so it writes nearly all ranges again. The
commits are one day apart, and the last ones are kept. Collections run now and then, and at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import sparklake
from benchmarks import data
from benchmarks.report import output_file
from sparklake import lake as lakes
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.verbs.base import publish

DAY = 24 * 60 * 60
MEGABYTE = 1_000_000
COLUMNS = (
    "commits",
    "kept",
    "before",
    "after",
    "kept trees",
    "ratio",
    "largest",
    "deleted tables",
    "last collection",
)


def main() -> None:
    """Make a history, collect, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=100_000, dest="count", help="objects")
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--kept", type=int, default=10, help="commits kept at the end")
    parser.add_argument("--every", type=int, default=50, help="commits between collections")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the lake is made")
    parser.add_argument("--json", type=output_file, help="a file for the numbers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trees-", dir=args.folder) as folder:
        found = measured(Path(folder), args)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    print(_line(COLUMNS), _line(["---:"] * len(COLUMNS)), sep="\n")
    print(
        _line(
            [
                f"{found['commits']:,}",
                f"{found['kept']:,}",
                _size(found["before"]),
                _size(found["after"]),
                _size(found["needed"]),
                f"{found['ratio']:.3f}",
                _size(found["largest"]),
                f"{found['deleted']:,}",
                f"{found['seconds']:.1f} s",
            ]
        )
    )


def measured(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return the sizes of the metadata before and after the last collection, in bytes."""
    namespace = folder / "namespace"
    with sparklake.connect(home=folder / "home", engine="local") as lake:
        with days_ago(args.commits):
            repo = lake.create_repository("trees", str(namespace))
        base = pa.Table.from_batches(data.entries(args.count))
        chance = np.random.default_rng(args.seed)
        largest = deleted = 0
        started = time.perf_counter()
        repo.settings.set_retention(args.kept - 1, tree_days=0)
        for number in range(args.commits):
            main = repo.branch("main")
            main.stage(base if number == 0 else _changed(base, chance, number))
            with days_ago(args.commits - 1 - number):
                main.commit(f"day {number}")
            if (number + 1) % args.every == 0 and number + 1 < args.commits:
                largest = max(largest, size_of(namespace))
                deleted += repo.collect_garbage(grace=timedelta()).run.tree_files
                said = f"{number + 1:,} commits, {time.perf_counter() - started:.0f} s"
                print(said, file=sys.stderr, flush=True)
        before = size_of(namespace)
        start = time.perf_counter()
        deleted += repo.collect_garbage(grace=timedelta()).run.tree_files
        seconds = time.perf_counter() - start
        after = size_of(namespace)
        kept = [each for each, has_expired in repo.log("main").marked() if not has_expired]
        needed = needed_by(repo, [each.id for each in kept])
    return {
        "objects": args.count,
        "commits": args.commits,
        "kept": len(kept),
        "before": before,
        "after": after,
        "needed": needed,
        "ratio": after / needed,
        "largest": max(largest, before),
        "deleted": deleted,
        "seconds": seconds,
    }


@contextmanager
def days_ago(days: float) -> Iterator[None]:
    """Let commits have a date some days and half an hour ago."""
    then = int(time.time() - days * DAY - DAY / 48)
    with (
        mock.patch.object(publish, "now", return_value=then),
        mock.patch.object(lakes, "now", return_value=then),
    ):
        yield


def size_of(namespace: Path) -> int:
    """Return the bytes of all files of a namespace, lists of collections included."""
    return sum(each.stat().st_size for each in namespace.rglob("*") if each.is_file())


def needed_by(repo: sparklake.Repository, commits: list[str]) -> int:
    """Return the bytes of the tables of commits, each counted once."""
    tables = set()
    for each in commits:
        tree = repo.tree(each)
        tables.update([tree.id, *(info.id for info in tree.ranges)])
    root = Path(repo.info.storage_namespace.removeprefix("file://"))
    return sum((root / tree_file_key(each)).stat().st_size for each in tables if each)


def _changed(base: pa.Table, chance: np.random.Generator, number: int) -> pa.Table:
    """Return 1% of the objects at random places, with new checksums."""
    rows = np.sort(chance.choice(base.num_rows, max(base.num_rows // 100, 1), replace=False))
    table = base.take(pa.array(rows))
    checksums = [f"{number:08x}{row:024x}" for row in rows.tolist()]
    at = table.schema.get_field_index("checksum")
    return table.set_column(at, table.schema.field(at), pa.array(checksums))


def _size(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB"


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
